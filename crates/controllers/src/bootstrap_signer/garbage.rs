//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::secret::SecretView;
use api::core::{ConfigMap, Secret};

use super::plan::{plan, tokens};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let secrets = draw.views::<Secret, SecretView>();
    let config_map = draw.object::<ConfigMap>();
    let (tokens, _) = tokens(&secrets, now());
    usize::from(plan(config_map.data.as_ref(), &tokens).is_some())
}
