//! One suite for every implementation, fake or real.
