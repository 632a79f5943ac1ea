//! Protocols that kubectl does not speak any more, spoken by hand.
