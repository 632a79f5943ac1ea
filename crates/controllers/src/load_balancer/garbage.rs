//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::node::Node;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;

use super::plan::{Holder, Observed, Source, plan};
use super::pool::parse_ranges;
use crate::garbage::Draw;

const RANGES: &[&str] =
    &["10.0.0.1-10.0.0.3", "10.0.0.0/8", "fd00::/8", "fd00::1-fd00::2", "0.0.0.0/0", "x"];

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let source = match draw.flag() {
        true => Source::Nodes(draw.views::<Node, _>()),
        false => {
            let ranges = (0..draw.below(3)).map(|_| draw.of(RANGES));
            Source::Pool(ranges.filter_map(|it| parse_ranges(it).ok()).collect())
        }
    };
    let addresses = ["10.0.0.1", "fd00::1"].iter().filter_map(|it| it.parse().ok()).collect();
    let holders = vec![
        Holder::of_service(&draw.object::<Service>(), addresses),
        Holder::of_server(&draw.object::<EndpointSlice>()),
    ];
    plan(&Observed { service: draw.object(), source, holders, slices: draw.objects() });
    1
}
