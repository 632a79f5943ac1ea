//! Who takes part in a storm beside the guarded and the bounded: one file each.

use client::Client;
use stdx::Random;
use testkit::History;

use crate::{RESTLESS, autoscaled, claims, mirrored, runs, sets, tenants};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Player {
    Autoscaled,
    Claims,
    Mirrored,
    Runs,
    Sets,
    Tenants,
}

const ALL: [Player; 6] = [
    Player::Autoscaled,
    Player::Claims,
    Player::Mirrored,
    Player::Runs,
    Player::Sets,
    Player::Tenants,
];

pub(crate) struct Cast {
    pub(crate) players: Vec<Player>,
    /// Pods crash and turn unready.
    pub(crate) is_restless: bool,
}

impl Cast {
    pub(crate) fn everybody() -> Self {
        Self { players: ALL.to_vec(), is_restless: true }
    }

    /// Most of them, each time others, so that a storm is not longer than it has to be.
    pub(crate) fn of(seed: u64) -> Self {
        let is_on = |it: &Player| match it {
            Player::Claims | Player::Mirrored | Player::Runs => true,
            Player::Sets => !seed.is_multiple_of(3),
            Player::Tenants => seed % 3 != 1,
            Player::Autoscaled => seed % 3 != 2,
        };
        let players = ALL.iter().copied().filter(is_on).collect();
        Self { players, is_restless: !seed.is_multiple_of(4) }
    }

    /// How containers of pods go on that run for ever.
    pub(crate) fn script(&self) -> &'static str {
        if self.is_restless { RESTLESS } else { "" }
    }
}

impl Player {
    pub(crate) async fn make(self, admin: &Client, random: &Random, script: &str) {
        match self {
            Self::Autoscaled => autoscaled::make(admin, script).await,
            Self::Claims => claims::make(admin, random).await,
            Self::Mirrored => mirrored::make(admin).await,
            Self::Runs => runs::make(admin).await,
            Self::Sets => sets::make(admin, script).await,
            Self::Tenants => {}
        }
    }

    /// In the storm, once in each round.
    pub(crate) async fn change(self, admin: &Client, random: &Random, round: usize) {
        match self {
            Self::Autoscaled => autoscaled::change(admin, random).await,
            Self::Claims => claims::change(admin, random).await,
            Self::Mirrored => mirrored::change(admin, random).await,
            Self::Runs => {}
            Self::Sets => sets::change(admin, random, round).await,
            Self::Tenants => tenants::change(admin, random).await,
        }
    }

    /// After the storm: from now on nothing changes any more.
    pub(crate) async fn calm(self, admin: &Client, random: &Random) {
        match self {
            Self::Autoscaled => autoscaled::calm(admin).await,
            Self::Claims => claims::calm(admin, random).await,
            Self::Mirrored => {}
            Self::Runs => runs::calm(admin).await,
            Self::Sets => sets::calm(admin).await,
            Self::Tenants => tenants::calm(admin).await,
        }
    }

    /// What is not as it should be in the end, and may still become so.
    pub(crate) async fn missing(self, admin: &Client) -> Vec<String> {
        match self {
            Self::Autoscaled => autoscaled::missing(admin).await,
            Self::Claims => claims::missing(admin).await,
            Self::Mirrored => Vec::new(),
            Self::Runs => runs::missing(admin).await,
            Self::Sets => sets::missing(admin).await,
            Self::Tenants => tenants::missing(admin).await,
        }
    }

    /// What never should have been.
    pub(crate) async fn violations(self, admin: &Client, history: &History) -> Vec<String> {
        match self {
            Self::Autoscaled => autoscaled::violations(history),
            Self::Claims => claims::violations(admin, history).await,
            Self::Mirrored => Vec::new(),
            Self::Runs => runs::violations(admin, history).await,
            Self::Sets => sets::violations(history),
            Self::Tenants => tenants::violations(history),
        }
    }
}
