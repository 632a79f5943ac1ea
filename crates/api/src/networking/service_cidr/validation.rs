//! What is wrong with a ServiceCIDR.

use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::addresses::{self, Range};
use crate::{check, codec};

const FAMILIES: usize = 2;

pub(super) fn cidrs(range: &ServiceCIDR) -> &[String] {
    range.spec.as_ref().and_then(|it| it.cidrs.as_deref()).unwrap_or_default()
}

fn path() -> Path {
    Path::new("spec").child("cidrs")
}

pub(super) fn validate(range: &ServiceCIDR, errors: &mut FieldErrors) {
    let (cidrs, path) = (cidrs(range), path());
    if cidrs.is_empty() {
        return errors.required(&path, "at least one CIDR required");
    }
    if cidrs.len() > FAMILIES {
        return errors.invalid(&path, codec::tree(&range.spec), "may only hold up to 2 values");
    }
    for (index, cidr) in cidrs.iter().enumerate() {
        addresses::validate_cidr(cidr, &path.index(index), errors);
    }
    if let [one, other] = cidrs
        && let (Some(one), Some(other)) = (Range::read(one), Range::read(other))
        && one.address.is_ipv4() == other.address.is_ipv4()
    {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(&path, Value::from(cidrs), detail);
    }
}

/// A range of the other family may be added. Nothing else changes.
pub(super) fn validate_update(range: &ServiceCIDR, stored: &ServiceCIDR, errors: &mut FieldErrors) {
    let (new, old, path) = (cidrs(range), cidrs(stored), path());
    let is_growing = old.len() == 1 && new.len() == FAMILIES;
    if new.len() != old.len() && !is_growing {
        let given = range.spec.as_ref().and_then(|it| it.cidrs.clone());
        return check::immutable(false, given.map_or(Value::Null, Value::from), &path, errors);
    }
    for (index, (new, old)) in new.iter().zip(old).enumerate() {
        check::immutable(new == old, new.as_str(), &path.index(index), errors);
    }
    if is_growing {
        validate(range, errors);
    }
}
