//! What only this engine has.
