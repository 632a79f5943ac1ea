//! Sizes and costs as ranges, with arithmetic that stops at the largest number instead of wrapping.

pub(crate) const LIST_CREATE: u64 = 10;
pub(crate) const MAP_CREATE: u64 = 30;
pub(crate) const STRUCT_CREATE: u64 = 40;
/// Going over a string once, per character.
pub const STRING_TRAVERSAL: f64 = 0.1;
/// Applying a regular expression, per character of its pattern.
pub const REGEX_LENGTH: f64 = 0.25;

const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// `n` times `factor`, rounded up.
pub fn scale(n: u64, factor: f64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "costs are this precise upstream")]
    let product = (n as f64 * factor).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range by then")]
    if product >= TWO_TO_64 { u64::MAX } else { product as u64 }
}

/// What a string of `n` characters costs to go over.
pub fn traversal(n: u64) -> u64 {
    scale(n, STRING_TRAVERSAL)
}

macro_rules! range {
    ($name:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            pub min: u64,
            pub max: u64,
        }

        impl $name {
            pub const fn new(min: u64, max: u64) -> Self {
                Self { min, max }
            }

            pub const fn fixed(n: u64) -> Self {
                Self { min: n, max: n }
            }

            pub const fn add(self, other: Self) -> Self {
                Self {
                    min: self.min.saturating_add(other.min),
                    max: self.max.saturating_add(other.max),
                }
            }

            pub const fn multiply(self, other: Self) -> Self {
                Self {
                    min: self.min.saturating_mul(other.min),
                    max: self.max.saturating_mul(other.max),
                }
            }

            /// Both ends times a factor, rounded up, as a cost.
            pub fn scaled(self, factor: f64) -> CostEstimate {
                CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
            }

            /// The range that covers both.
            pub fn union(self, other: Self) -> Self {
                Self { min: self.min.min(other.min), max: self.max.max(other.max) }
            }
        }
    };
}

range!(SizeEstimate, "How large a value can be: characters, bytes, elements or entries.");
range!(CostEstimate, "What evaluating an expression can cost.");

impl SizeEstimate {
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub const fn times(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate {
            min: self.min.saturating_mul(cost.min),
            max: self.max.saturating_mul(cost.max),
        }
    }
}

impl CostEstimate {
    pub const ZERO: Self = Self::fixed(0);
    pub const ONE: Self = Self::fixed(1);
}

/// What a call costs by itself, without its arguments, and how large its result can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEstimate {
    pub cost: CostEstimate,
    pub result_size: Option<SizeEstimate>,
}

impl CallEstimate {
    pub const fn of(cost: CostEstimate) -> Self {
        Self { cost, result_size: None }
    }

    pub const fn sized(cost: CostEstimate, result_size: SizeEstimate) -> Self {
        Self { cost, result_size: Some(result_size) }
    }
}
