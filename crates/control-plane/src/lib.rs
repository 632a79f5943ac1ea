//! The wiring of the control plane: which component acts as whom, reads through which informers and
//! stands for which Lease.
//!
//! `xebec up`, the commands that run one component alone, and the simulation start components here
//! and nowhere else, so that what is tested is what users run. How the API is reached is for the
//! caller to say: `Clients`.

mod clients;
mod components;

pub use clients::{Clients, Identity};
pub use components::{CONTROLLER_MANAGER, Components, SCHEDULER};
/// What flags say about the controllers.
pub use controllers::{Settings as ControllerSettings, SignToken};
pub use simulator::{Config as FleetConfig, Fleet};
