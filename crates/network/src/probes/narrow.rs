//! Routes to ways that take shorter packets than their links. Pure.
//!
//! The kernel then tells whoever sends a longer one, a pod too, how long it may be, whatever
//! happens to such words on the way.

use std::collections::BTreeMap;

use stdx::Cidr;

use crate::kernel_state::{KernelState, Route};

/// `limits`: the longest packets to each of these ranges.
pub(crate) fn narrow(state: &mut KernelState, limits: &BTreeMap<Cidr, u32>) {
    for (range, mtu) in limits {
        let covers = |it: &&Route| {
            let (whole, part) = (it.destination, range);
            it.leads_away()
                && whole.contains(part.network())
                && whole.prefix_length() <= part.prefix_length()
        };
        // The most precise: some back ends have one for all ranges.
        let found = state.routes.iter().filter(covers);
        let Some(route) = found.max_by_key(|it| it.destination.prefix_length()).cloned() else {
            continue;
        };
        if route.destination == *range {
            state.routes.remove(&route);
        }
        state.routes.insert(Route { destination: *range, mtu: Some(*mtu), ..route });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_state::Next;

    #[test]
    fn only_the_way_to_the_range_is_narrow() {
        let over = |text: &str| {
            let next = Next::Link { name: "flannel0".into(), source: None };
            Route::new(text.parse().unwrap(), next)
        };
        let check = |routes: &[Route], expected: &[(&str, Option<u32>)]| {
            let routes = routes.iter().cloned().collect();
            let mut state = KernelState { routes, ..KernelState::default() };
            narrow(&mut state, &[("10.244.2.0/24".parse().unwrap(), 1372)].into());
            let shown: Vec<_> =
                state.routes.iter().map(|it| (it.destination.to_string(), it.mtu)).collect();
            let shown: Vec<_> = shown.iter().map(|(it, mtu)| (it.as_str(), *mtu)).collect();
            assert_eq!(shown, expected);
        };
        let two = [over("10.244.2.0/24"), over("10.244.3.0/24")];
        check(&two, &[("10.244.2.0/24", Some(1372)), ("10.244.3.0/24", None)]);
        let whole = [over("10.244.0.0/16")];
        check(&whole, &[("10.244.0.0/16", None), ("10.244.2.0/24", Some(1372))]);
        check(&[Route::nowhere("10.244.0.0/16".parse().unwrap())], &[("10.244.0.0/16", None)]);
        check(&[], &[]);
    }
}
