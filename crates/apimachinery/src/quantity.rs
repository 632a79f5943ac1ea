//! Resource quantities (`250m`, `1Gi`): exact decimal arithmetic with Kubernetes' suffixes and canonical form.

/// A quantity in nano units, with the suffix family it is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount {
    nanos: i128,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)]
pub struct Error;

impl Amount {
    pub const ZERO: Self = Self { nanos: 0 };

    pub fn parse(text: &str) -> Result<Self, Error> {
        let _ = text;
        todo!("apimachinery")
    }

    /// Rounded up, as `Quantity.Value()` is.
    pub fn value(self) -> i64 {
        todo!("apimachinery")
    }

    /// Rounded up, as `Quantity.MilliValue()` is.
    pub fn millis(self) -> i64 {
        todo!("apimachinery")
    }
}

/// The canonical text of a quantity: `1000m` becomes `1`, `1024Mi` becomes `1Gi`; `None` when malformed.
pub fn canonical(text: &str) -> Option<String> {
    let _ = text;
    todo!("apimachinery")
}
