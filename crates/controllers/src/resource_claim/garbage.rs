//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::pod::{Pod, PodView};
use api::resource::ResourceClaim;

use super::claim::{self, Consumer, Owner};
use super::pod::{self, Observed};
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let claim = draw.object::<ResourceClaim>();
    let consumer = |draw: &mut Draw<'_>| if draw.flag() { Consumer::Stays } else { Consumer::Over };
    let consumers: Vec<Consumer> = (0..draw.below(4)).map(|_| consumer(draw)).collect();
    let owner = [None, Some(Owner::Stays), Some(Owner::Over)][draw.below(3)];
    claim::plan(&claim, &consumers, owner, draw.flag());
    let pod = draw.view::<Pod, PodView>();
    let (claims, made) = (draw.objects(), draw.objects());
    pod::plan(&Observed { pod: &pod, claims, made, templates: draw.objects() });
    1
}
