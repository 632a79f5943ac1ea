//! What is wrong with a ResourcePoolStatusRequest. Upstream's rules for it are declarative, whose
//! words differ a little from those of other kinds.

use k8s_openapi::api::resource::v1alpha3::{PoolStatus, ResourcePoolStatusRequestSpec};
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::ResourcePoolStatusRequest;
use crate::resource::bounded;
use crate::{check, codec, conditions, semantic};

const LIMIT_MAX: i32 = 1_000;
const POOLS_MAX: usize = 1_000;
const CONDITIONS_MAX: usize = 10;
const POOL_BYTES_MAX: usize = 253;
const ERROR_BYTES_MAX: usize = 256;

pub(super) fn validate(request: &ResourcePoolStatusRequest, errors: &mut FieldErrors) {
    let ResourcePoolStatusRequestSpec { driver, limit, pool_name } = &request.spec;
    let path = Path::new("spec");
    validate_driver(driver, &path.child("driver"), errors);
    if let Some(pool) = pool_name {
        validate_pool(pool, &path.child("poolName"), errors);
    }
    let limit_path = path.child("limit");
    match limit {
        None => errors.required(&limit_path, ""),
        Some(limit) if *limit > LIMIT_MAX => {
            let why = format!("must be less than or equal to {LIMIT_MAX}");
            errors.invalid(&limit_path, *limit, &why);
        }
        Some(limit) => at_least(1, Some(*limit), &limit_path, errors),
    }
}

pub(super) fn validate_update(
    request: &ResourcePoolStatusRequest,
    stored: &ResourcePoolStatusRequest,
    errors: &mut FieldErrors,
) {
    let is_same = semantic::equal(&request.spec, &stored.spec);
    check::immutable(is_same, Value::Null, &Path::new("spec"), errors);
}

/// An answer is given once.
pub(super) fn validate_status(
    request: &ResourcePoolStatusRequest,
    stored: &ResourcePoolStatusRequest,
    errors: &mut FieldErrors,
) {
    let path = Path::new("status");
    if stored.status.is_some() {
        let is_same = semantic::equal(&request.status, &stored.status);
        return check::immutable(is_same, codec::tree(&request.status), &path, errors);
    }
    let Some(status) = &request.status else { return };
    let all = status.conditions.as_deref().unwrap_or_default();
    conditions::validate(all, &path.child("conditions"), errors);
    at_least(0, Some(status.pool_count), &path.child("poolCount"), errors);
    let pools = status.pools.as_deref().unwrap_or_default();
    bounded::list(pools, POOLS_MAX, &path.child("pools"), errors, validate_pool_status);
    if all.len() > CONDITIONS_MAX {
        errors.too_many(&path.child("conditions"), all.len(), CONDITIONS_MAX);
    }
}

fn validate_pool_status(pool: &PoolStatus, path: &Path, errors: &mut FieldErrors) {
    validate_driver(&pool.driver, &path.child("driver"), errors);
    let name_path = path.child("poolName");
    if pool.pool_name.is_empty() {
        errors.required(&name_path, "");
    } else {
        validate_pool(&pool.pool_name, &name_path, errors);
    }
    for (field, min, number) in [
        ("resourceSliceCount", 1, pool.resource_slice_count),
        ("totalDevices", 0, pool.total_devices),
        ("allocatedDevices", 0, pool.allocated_devices),
        ("availableDevices", 0, pool.available_devices),
        ("unavailableDevices", 0, pool.unavailable_devices),
    ] {
        at_least(min, number, &path.child(field), errors);
    }
    let generation_path = path.child("generation");
    match pool.generation {
        // It cannot be told from one that is missing.
        0 => errors.required(&generation_path, ""),
        number => check::non_negative(number, &generation_path, errors),
    }
    if let Some(node) = &pool.node_name {
        check::format(node, &is_dns_subdomain(node), &path.child("nodeName"), errors);
    }
    if pool.validation_error.as_ref().is_some_and(|it| it.len() > ERROR_BYTES_MAX) {
        errors.too_long(&path.child("validationError"), ERROR_BYTES_MAX);
    }
}

fn at_least(min: i32, number: Option<i32>, path: &Path, errors: &mut FieldErrors) {
    if let Some(number) = number.filter(|it| *it < min) {
        errors.invalid(path, number, &format!("must be greater than or equal to {min}"));
    }
}

fn validate_driver(driver: &str, path: &Path, errors: &mut FieldErrors) {
    if driver.is_empty() {
        return errors.required(path, "");
    }
    if !is_dns_subdomain(&driver.to_ascii_lowercase()).is_empty() {
        let why = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
                   (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        errors.invalid(path, driver, why);
    }
}

fn validate_pool(pool: &str, path: &Path, errors: &mut FieldErrors) {
    if pool.len() > POOL_BYTES_MAX {
        errors.too_long(path, POOL_BYTES_MAX);
    }
    for (index, part) in pool.split('/').enumerate() {
        if part.is_empty() {
            errors.invalid(path, pool, &format!("segment {index}: must not be empty"));
            continue;
        }
        for problem in is_dns_subdomain(part) {
            errors.invalid(path, part, &format!("segment {index}: {problem}"));
        }
    }
}
