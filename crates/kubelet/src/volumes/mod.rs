//! A pod's volumes: `plugins` say what should be there, `machine` which verb of its driver is next,
//! `verbs` carry it out.

mod machine;
mod plugins;
mod verbs;

pub use plugins::{Error, render};
pub(crate) use plugins::{WantedImage, images, objects, tokens};
pub(crate) use verbs::{Content, publish, remove_all};
