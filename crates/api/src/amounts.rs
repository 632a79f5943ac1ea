//! Amounts of resources that are added up and compared, with the way they were written: what is
//! shown of a sum looks like what went into it.

use std::collections::BTreeMap;

use apimachinery::quantity::{Amount, Family};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// By the name of the resource.
pub type Amounts = BTreeMap<String, Written>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub amount: Amount,
    family: Family,
}

impl Written {
    pub fn parse(quantity: &Quantity) -> Option<Self> {
        let (amount, family) = Amount::parse_with_family(&quantity.0).ok()?;
        Some(Self { amount, family })
    }

    /// So many things.
    pub fn count(n: usize) -> Self {
        let amount = Amount::new(i64::try_from(n).unwrap_or(i64::MAX));
        Self { amount, family: Family::Decimal }
    }

    pub fn shown(self) -> String {
        self.amount.render(self.family)
    }

    /// As the first of them that is not nothing is written.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let family = if self.amount.is_zero() { other.family } else { self.family };
        Self { amount: self.amount.saturating_add(other.amount), family }
    }

    /// Never less than nothing.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let amount = self.amount.saturating_sub(other.amount);
        Self { amount: amount.max(Amount::ZERO), ..self }
    }

    /// Up to whole units.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        Self { amount: Amount::new(self.amount.value()), ..self }
    }
}

/// What does not parse is left out: validation refuses it.
pub fn parse(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let each = list.into_iter().flatten();
    each.filter_map(|(name, it)| Some((name.clone(), Written::parse(it)?))).collect()
}

pub fn render(amounts: &Amounts) -> BTreeMap<String, Quantity> {
    amounts.iter().map(|(name, it)| (name.clone(), Quantity(it.shown()))).collect()
}

/// `cpu=1,pods=2`, as refusals show it.
pub fn shown(amounts: &Amounts) -> String {
    let each: Vec<String> =
        amounts.iter().map(|(name, it)| format!("{name}={}", it.shown())).collect();
    each.join(",")
}

/// Of a resource: what can be added up and compared.
pub trait Summed: Copy + Default {
    fn plus(self, other: Self) -> Self;
    fn is_more_than(self, other: Self) -> bool;
}

impl Summed for Written {
    fn plus(self, other: Self) -> Self {
        Self::plus(self, other)
    }

    fn is_more_than(self, other: Self) -> bool {
        self.amount > other.amount
    }
}

impl Summed for i64 {
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }

    fn is_more_than(self, other: Self) -> bool {
        self > other
    }
}

pub fn add<S: Summed>(totals: &mut BTreeMap<String, S>, more: &BTreeMap<String, S>) {
    for (name, amount) in more {
        let total = totals.entry(name.clone()).or_default();
        *total = total.plus(*amount);
    }
}

pub fn raise<S: Summed>(totals: &mut BTreeMap<String, S>, at_least: &BTreeMap<String, S>) {
    for (name, amount) in at_least {
        let total = totals.entry(name.clone()).or_insert(*amount);
        if amount.is_more_than(*total) {
            *total = *amount;
        }
    }
}

/// The same amounts of the same resources, however they are written.
pub fn is_same(left: &Amounts, right: &Amounts) -> bool {
    let same = |(left, right): ((&String, &Written), (&String, &Written))| {
        left.0 == right.0 && left.1.amount == right.1.amount
    };
    left.len() == right.len() && left.iter().zip(right).all(same)
}
