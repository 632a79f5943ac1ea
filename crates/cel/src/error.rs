//! What goes wrong while an expression is evaluated. `&&`, `||`, `all` and `exists` absorb all of
//! them but `CostExceeded`.

/// The texts are cel-go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("no such overload")]
    NoSuchOverload,
    /// With the function and the types that it was called with.
    #[error("no such overload: {0}")]
    NoSuchOverloadFor(String),
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("no such attribute(s): {0}")]
    NoSuchAttribute(String),
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    #[error("integer overflow")]
    IntOverflow,
    #[error("unsigned integer overflow")]
    UintOverflow,
    #[error("timestamp overflow")]
    TimestampOverflow,
    #[error("division by zero")]
    DivisionByZero,
    #[error("modulus by zero")]
    ModulusByZero,
    /// The budget is used up. Nothing absorbs it.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostExceeded,
    /// A function refused its arguments; the text says which and why.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }
}
