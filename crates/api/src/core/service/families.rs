//! The families of a Service's addresses: from what the client asks for, what the Service had and
//! what the cluster has. Pure.
//!
//! As upstream decides it (`pkg/registry/core/service/storage/alloc.go`, KEP-563): a Service changes
//! between one family and two only where its policy says so, and its first family never changes.

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use stdx::Family;

use super::allocation::{addresses, is_headless, normalize_new, spec, type_of, uses_cluster_ips};
use super::validation::{list, validate_cluster_ips};
use crate::check::text;

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Fills `ipFamilyPolicy` and `ipFamilies`, and drops the second address of a Service that is to
/// have one. `configured` are the families of the cluster's Services, the first one first.
///
/// Where it finds nothing wrong, a Service that has addresses has one or two families, all of them
/// the cluster's, and no more addresses than families.
pub fn complete_families(
    service: &mut Service,
    old: Option<&Service>,
    configured: &[Family],
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !uses_cluster_ips(service) || old.is_some_and(|old| prefers_as_before(service, old)) {
        return errors;
    }
    if old.is_none() {
        // Once more: somebody may have changed it since.
        normalize_new(service);
    }
    let is_open = is_headless(service) && selects_nothing(service);
    set_policy(service, old, is_open);
    // The rest need not think of addresses that are none.
    validate_cluster_ips(service, spec(service), &Path::new("spec"), &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    if let Some(old) = old {
        release_second(service, old, &mut errors);
    }
    check_policy(spec(service), &mut errors);
    infer_from_addresses(service, configured, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    if !is_open {
        check_configured(spec(service), configured, &mut errors);
    }
    if errors.is_empty() {
        add_missing(service, configured, is_open);
    }
    errors
}

fn selects_nothing(service: &Service) -> bool {
    spec(service).selector.as_ref().is_none_or(|it| it.is_empty())
}

fn policy(spec: &ServiceSpec) -> &str {
    text(spec.ip_family_policy.as_ref())
}

fn families(service: &Service) -> &[String] {
    spec(service).ip_families.as_deref().unwrap_or_default()
}

/// A Service that prefers two families does not get or lose one because the cluster did.
fn prefers_as_before(service: &Service, old: &Service) -> bool {
    let prefers = |it: &Service| policy(spec(it)) == PREFER;
    prefers(service)
        && (prefers(old) || spec(old).ip_family_policy.is_none())
        && type_of(service) == type_of(old)
        && addresses(service) == addresses(old)
        && families(service) == families(old)
}

/// A headless Service without selector may have endpoints of both families, whatever the cluster
/// has.
fn set_policy(service: &mut Service, old: Option<&Service>, is_open: bool) {
    if spec(service).ip_family_policy.is_some() {
        return;
    }
    let before = old.and_then(|it| spec(it).ip_family_policy.clone());
    let default = if is_open { REQUIRE } else { SINGLE };
    let policy = before.unwrap_or_else(|| default.to_owned());
    service.spec.get_or_insert_default().ip_family_policy = Some(policy);
}

/// To ask for one family is to give up the second address, unless the client also names two.
fn release_second(service: &mut Service, old: &Service, errors: &mut FieldErrors) {
    let has_same_addresses = addresses(service) == addresses(old);
    let has_same_families = families(service) == families(old);
    let has_fewer = |new: &[String], old: &[String]| !new.is_empty() && new.len() < old.len();
    let loses = [
        (has_fewer(addresses(service), addresses(old)), "cluster IP"),
        (has_fewer(families(service), families(old)), "IP family"),
    ];
    let spec = service.spec.get_or_insert_default();
    if policy(spec) == SINGLE {
        if let Some(addresses) = spec.cluster_ips.as_mut().filter(|_| has_same_addresses) {
            addresses.truncate(1);
        }
        if let Some(families) = spec.ip_families.as_mut().filter(|_| has_same_families) {
            families.truncate(1);
        }
        return;
    }
    for (_, what) in loses.iter().filter(|(is_lost, _)| *is_lost) {
        let detail = format!("must be 'SingleStack' to release the secondary {what}");
        errors.invalid(&Path::new("spec").child("ipFamilyPolicy"), policy(spec), &detail);
    }
}

fn check_policy(spec: &ServiceSpec, errors: &mut FieldErrors) {
    let count = |it: &Option<Vec<String>>| it.as_ref().map_or(0, Vec::len);
    let lists =
        [(count(&spec.cluster_ips), "cluster IPs"), (count(&spec.ip_families), "IP families")];
    for (_, what) in lists.iter().filter(|(count, _)| *count == 2 && policy(spec) == SINGLE) {
        let detail = format!(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
        );
        errors.invalid(&Path::new("spec").child("ipFamilyPolicy"), policy(spec), &detail);
    }
}

/// An address says its family, if the client does not.
fn infer_from_addresses(service: &mut Service, configured: &[Family], errors: &mut FieldErrors) {
    let all = addresses(service).to_vec();
    let n_known = families(service).len();
    for (index, address) in all.iter().enumerate().skip(n_known) {
        let Some(family) = address.parse().ok().map(Family::of) else { continue };
        if configured.contains(&family) {
            let spec = service.spec.get_or_insert_default();
            spec.ip_families.get_or_insert_default().push(family.to_string());
        } else {
            let path = Path::new("spec").child("clusterIPs").index(index);
            let detail = format!("{family} is not configured on this cluster");
            errors.invalid(&path, list(&all), &detail);
        }
    }
}

fn check_configured(spec: &ServiceSpec, configured: &[Family], errors: &mut FieldErrors) {
    let path = Path::new("spec");
    if policy(spec) == REQUIRE && configured.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&path.child("ipFamilyPolicy"), policy(spec), detail);
    }
    for (index, family) in spec.ip_families.iter().flatten().enumerate() {
        if !configured.iter().any(|it| it.to_string() == *family) {
            let path = path.child("ipFamilies").index(index);
            errors.invalid(&path, family.as_str(), "not configured on this cluster");
        }
    }
}

fn add_missing(service: &mut Service, configured: &[Family], is_open: bool) {
    let spec = service.spec.get_or_insert_default();
    let is_single = policy(spec) == SINGLE;
    let families = spec.ip_families.get_or_insert_default();
    if families.is_empty() {
        families.extend(configured.first().map(ToString::to_string));
    }
    if !is_single && families.len() == 1 && (is_open || configured.len() == 2) {
        let other = if families[0] == "IPv4" { Family::V6 } else { Family::V4 };
        families.push(other.to_string());
    }
}
