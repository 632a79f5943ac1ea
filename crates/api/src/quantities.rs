//! Quantities in objects: how they are written, compared and refused.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::{self, Amount};

/// What many kinds have: amounts by the name of a resource.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

/// Zero where there is none, and where the text is none.
pub(crate) fn amount(quantity: Option<&Quantity>) -> Amount {
    quantity.and_then(|it| Amount::parse(&it.0).ok()).unwrap_or(Amount::ZERO)
}

/// What a list has of one resource.
pub(crate) fn of<'a>(list: Option<&'a ResourceList>, resource: &str) -> Option<&'a Quantity> {
    list.and_then(|it| it.get(resource))
}

/// As a table shows it: `0` where there is none.
pub(crate) fn shown(quantity: Option<&Quantity>) -> &str {
    quantity.map_or("0", |it| it.0.as_str())
}

pub(crate) fn is_whole(amount: Amount) -> bool {
    amount.millis() % 1000 == 0
}

/// In the form that upstream writes. What does not parse is left for validation to refuse.
pub(crate) fn canonicalize(quantity: &mut Quantity) {
    if let Some(canonical) = quantity::canonical(&quantity.0) {
        quantity.0 = canonical;
    }
}

/// To thousandths, in canonical form: every list of resources is kept like that.
pub(crate) fn round_up(quantities: &mut ResourceList) {
    for quantity in quantities.values_mut() {
        let Ok(amount) = Amount::parse(&quantity.0) else { continue };
        let millis = format!("{}m", amount.millis());
        let is_finer = Amount::parse(&millis).is_ok_and(|it| it != amount);
        if is_finer && amount.millis() < i64::MAX {
            quantity.0 = millis;
        }
        canonicalize(quantity);
    }
}

/// The amount, or the problem that there is none.
pub(crate) fn validate(
    quantity: &Quantity,
    path: &Path,
    errors: &mut FieldErrors,
) -> Option<Amount> {
    match Amount::parse(&quantity.0) {
        Ok(amount) => Some(amount),
        Err(err) => {
            errors.invalid(path, quantity.0.as_str(), &err.to_string());
            None
        }
    }
}

pub(crate) fn non_negative(quantity: &Quantity, path: &Path, errors: &mut FieldErrors) {
    if validate(quantity, path, errors).is_some_and(Amount::is_negative) {
        errors.invalid(path, quantity.0.as_str(), "must be greater than or equal to 0");
    }
}

/// Whether it is more than nothing.
pub(crate) fn positive(quantity: &Quantity, path: &Path, errors: &mut FieldErrors) -> bool {
    let Some(amount) = validate(quantity, path, errors) else { return false };
    if amount <= Amount::ZERO {
        errors.invalid(path, quantity.0.as_str(), "must be greater than zero");
        return false;
    }
    true
}

/// As upstream checks capacities: in whole units.
pub(crate) fn valid(quantity: &Quantity, path: &Path, errors: &mut FieldErrors) -> bool {
    let Some(amount) = validate(quantity, path, errors) else { return false };
    if amount.value() < 0 {
        errors.invalid(path, amount.value(), "must be a valid resource quantity");
        return false;
    }
    true
}

/// The same amounts of the same resources, however they are written.
pub(crate) fn is_same(left: Option<&ResourceList>, right: Option<&ResourceList>) -> bool {
    let amounts = |list: Option<&ResourceList>| -> Vec<(String, Amount)> {
        let each = list.into_iter().flatten();
        each.map(|(name, it)| (name.clone(), amount(Some(it)))).collect()
    };
    amounts(left) == amounts(right)
}
