//! What this controller makes of ranges that nobody has validated: see `crate::garbage`.

use super::plan::{Masks, choose, parse_cidr, wholes};
use crate::garbage::Draw;

const RANGES: &[&str] =
    &["10.0.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "fd00::/64", "::/0", "10.0.0.7/32", "x/3"];

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let cidrs = |draw: &mut Draw<'_>| {
        let texts = (0..draw.below(4)).map(|_| draw.of(RANGES));
        texts.filter_map(|it| parse_cidr(it).ok()).collect::<Vec<_>>()
    };
    let (ranges, taken) = (cidrs(draw), cidrs(draw));
    let length = |draw: &mut Draw<'_>| draw.flag().then(|| draw.byte() % 140);
    let masks = Masks { one: length(draw), v4: length(draw), v6: length(draw) };
    for whole in wholes(&ranges, masks).unwrap_or_default() {
        choose(whole, &taken, u128::from(draw.byte()));
    }
    1
}
