//! What is wrong with a LimitRange.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::LimitRangeItem;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;
use apimachinery::validation::is_qualified_name;

use super::{CLAIM, CONTAINER, LimitRange, POD};
use crate::check;
use crate::core::resource_names;
use crate::quantities::{self, ResourceList};

/// Amounts up to here are compared in thousandths, larger ones in whole units.
const MILLIS_MAX: i64 = i64::MAX / 1000;

pub(super) fn validate(range: &LimitRange, errors: &mut FieldErrors) {
    let mut types = BTreeSet::new();
    let path = Path::new("spec").child("limits");
    let items = range.spec.iter().flat_map(|it| &it.limits);
    for (index, item) in items.enumerate() {
        let path = path.index(index);
        validate_type(&item.type_, &path.child("type"), errors);
        if !types.insert(&item.type_) {
            errors.duplicate(&path.child("type"), item.type_.as_str());
        }
        validate_item(item, &path, errors);
    }
}

fn validate_type(type_: &str, path: &Path, errors: &mut FieldErrors) {
    let problems = is_qualified_name(type_);
    check::format(type_, &problems, path, errors);
    let is_known = type_.contains('/') || [CONTAINER, POD, CLAIM].contains(&type_);
    if problems.is_empty() && !is_known {
        errors.invalid(path, type_, "must be a standard limit type or fully qualified");
    }
}

fn validate_item(item: &LimitRangeItem, path: &Path, errors: &mut FieldErrors) {
    let mut resources = BTreeSet::new();
    for (field, list) in [
        ("max", &item.max),
        ("min", &item.min),
        ("default", &item.default),
        ("defaultRequest", &item.default_request),
        ("maxLimitRequestRatio", &item.max_limit_request_ratio),
    ] {
        let path = path.child(field);
        let is_empty = list.as_ref().is_none_or(|it| it.is_empty());
        if field.starts_with("default") && item.type_ == POD {
            if !is_empty {
                errors.forbidden(&path, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (resource, quantity) in list.iter().flatten() {
            let path = path.key(resource);
            match item.type_.as_str() {
                POD | CONTAINER => resource_names::validate_of_container(resource, &path, errors),
                _ => resource_names::validate(resource, &path, errors),
            }
            quantities::validate(quantity, &path, errors);
            resources.insert(resource);
        }
    }
    let has_storage =
        |list: &Option<ResourceList>| quantities::of(list.as_ref(), "storage").is_some();
    if item.type_ == CLAIM && !has_storage(&item.min) && !has_storage(&item.max) {
        errors.required(
            &path.child("limits"),
            "either minimum or maximum storage value is required, but neither was provided",
        );
    }
    for resource in resources {
        Limits::of(item, resource).validate(resource, path, errors);
    }
}

/// What an item says of one resource.
struct Limits<'a> {
    min: Option<&'a Quantity>,
    max: Option<&'a Quantity>,
    default: Option<&'a Quantity>,
    default_request: Option<&'a Quantity>,
    ratio: Option<&'a Quantity>,
}

impl<'a> Limits<'a> {
    fn of(item: &'a LimitRangeItem, resource: &str) -> Self {
        let is_pod = item.type_ == POD;
        let find = |list: &'a Option<ResourceList>| quantities::of(list.as_ref(), resource);
        Self {
            min: find(&item.min),
            max: find(&item.max),
            default: find(&item.default).filter(|_| !is_pod),
            default_request: find(&item.default_request).filter(|_| !is_pod),
            ratio: find(&item.max_limit_request_ratio),
        }
    }

    fn validate(&self, resource: &str, path: &Path, errors: &mut FieldErrors) {
        let (min, max) = ((self.min, "min value"), (self.max, "max value"));
        let request = (self.default_request, "default request value");
        let limit = (self.default, "default value");
        // Field, what it shows, and which of two must not be greater.
        for (field, shown, lesser, greater) in [
            ("min", self.min, min, max),
            ("defaultRequest", self.default_request, min, request),
            ("defaultRequest", self.default_request, request, max),
            (
                "defaultRequest",
                self.default_request,
                request,
                (self.default, "default limit value"),
            ),
            ("default", self.min, min, limit),
            ("default", self.max, limit, max),
        ] {
            let ((Some(low), low_name), (Some(high), high_name)) = (lesser, greater) else {
                continue;
            };
            if quantities::amount(Some(low)) > quantities::amount(Some(high)) {
                let path = path.child(field).key(resource);
                let detail = format!("{low_name} {} is greater than {high_name} {}", low.0, high.0);
                errors.invalid(&path, quantities::shown(shown), &detail);
            }
        }
        self.validate_ratio(&path.child("maxLimitRequestRatio").key(resource), errors);
        self.validate_equality(resource, path, errors);
    }

    fn validate_ratio(&self, path: &Path, errors: &mut FieldErrors) {
        let Some(ratio) = self.ratio else { return };
        let amount = quantities::amount(Some(ratio));
        if amount < Amount::new(1) {
            let detail = format!("ratio {} is less than 1", ratio.0);
            errors.invalid(path, ratio.0.as_str(), &detail);
        }
        let (Some(min), Some(max)) = (self.min, self.max) else { return };
        let (min, max) = (quantities::amount(Some(min)), quantities::amount(Some(max)));
        let is_fine = [amount, min, max].iter().all(|it| it.value() < MILLIS_MAX);
        let (wanted, most) = match is_fine {
            true => (amount.millis() as f64 / 1000.0, max.millis() as f64 / min.millis() as f64),
            false => (amount.value() as f64, max.value() as f64 / min.value() as f64),
        };
        if wanted > most {
            let detail = format!("ratio {} is greater than max/min = {most:.6}", ratio.0);
            errors.invalid(path, ratio.0.as_str(), &detail);
        }
    }

    /// What cannot be promised twice is given as it is requested.
    fn validate_equality(&self, resource: &str, path: &Path, errors: &mut FieldErrors) {
        let (Some(limit), Some(request)) = (self.default, self.default_request) else { return };
        let is_same = quantities::amount(Some(limit)) == quantities::amount(Some(request));
        if !is_same && !resource_names::is_overcommittable(resource) {
            let detail = format!(
                "default value {} must equal to defaultRequest value {} in {resource}",
                limit.0, request.0
            );
            let path = path.child("defaultRequest").key(resource);
            errors.invalid(&path, request.0.as_str(), &detail);
        }
    }
}
