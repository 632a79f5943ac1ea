//! What trying the ways leads to: shorter packets, checksums that are computed here.

use crate::kernel_state::KernelState;
use crate::network::State;
use crate::probes::{self, Checksums, Target, Tried, Verdict};
use crate::{kernel, paths};

impl State {
    /// Who is to be tried, as it is now.
    pub(crate) fn tell_targets(&mut self) {
        let node = self.this_node(std::collections::BTreeMap::new());
        let (ways, _) = paths::admit(self.backend, &node, &self.peers);
        self.limits.retain(|range, _| ways.iter().any(|it| it.range == *range));
        let targets = probes::targets(self.backend, &node, &ways, &self.peers);
        self.targets.send_if_modified(|it| std::mem::replace(it, targets.clone()) != targets);
    }

    pub(crate) fn tell_tried(&self, tried: Tried) {
        if self.tried.send_if_modified(|it| std::mem::replace(it, tried.clone()) != tried) {
            self.tell_changed();
        }
    }

    /// What is silent stays as it is.
    pub(crate) fn repair(
        &mut self,
        target: &Target,
        verdict: &Verdict,
    ) -> Result<(), node_api::Error> {
        let Verdict::Reached { fits, checksums } = verdict else { return Ok(()) };
        if let (Checksums::Repaired, Some(tunnel)) = (checksums, &target.tunnel) {
            self.computing.insert(tunnel.link.clone());
        }
        let before = match fits {
            Some(fits) => self.limits.insert(target.range, *fits),
            None => self.limits.remove(&target.range),
        };
        if before == *fits { Ok(()) } else { self.converge() }
    }

    /// With the routes of those ways that are narrow.
    pub(crate) fn narrowed(&self, mut state: KernelState) -> KernelState {
        probes::narrow(&mut state, &self.limits);
        state
    }

    /// Links that compute checksums because of us do so after they were made anew, too.
    pub(crate) fn keep_computing(&mut self) -> Result<(), kernel::Error> {
        for link in &self.computing {
            self.kernel.compute_checksums(link)?;
        }
        Ok(())
    }
}
