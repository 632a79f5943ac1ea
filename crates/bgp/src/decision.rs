//! Which of the paths to one range that several peers know is taken (RFC 4271, 9.1). Pure.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};

use crate::message::Origin;
use crate::peer::Path;

/// Where nobody in one's own AS has said what he would like.
const LOCAL_PREFERENCE: u32 = 100;

/// A path, with who knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub path: &'a Path,
    /// Of another AS than ours.
    pub is_external: bool,
    pub identifier: Ipv4Addr,
    pub address: IpAddr,
}

type Rank = (Reverse<u32>, usize, Origin, bool, Ipv4Addr, IpAddr);

impl Candidate<'_> {
    fn rank(&self) -> Rank {
        let said = &self.path.attributes;
        (
            Reverse(said.local_preference.unwrap_or(LOCAL_PREFERENCE)),
            said.as_path.length(),
            said.origin,
            !self.is_external,
            // Who said it first counts, not who passed it on (RFC 4456, 9).
            said.originator.unwrap_or(self.identifier),
            self.address,
        )
    }

    /// What a neighboring AS would like counts among its own paths alone.
    fn is_unwanted_beside(&self, other: &Self) -> bool {
        let neighbor = |it: &Self| it.path.attributes.as_path.first();
        let wish = |it: &Self| it.path.attributes.med.unwrap_or(0);
        let is_equal = |it: &Self| {
            let (preference, length, origin, ..) = it.rank();
            (preference, length, origin)
        };
        neighbor(self) == neighbor(other)
            && is_equal(self) == is_equal(other)
            && wish(other) < wish(self)
    }
}

/// The same for any order of the candidates.
pub fn best<'a, 'b>(candidates: &'b [Candidate<'a>]) -> Option<&'b Candidate<'a>> {
    let wanted =
        candidates.iter().filter(|it| !candidates.iter().any(|other| it.is_unwanted_beside(other)));
    wanted.min_by_key(|it| it.rank())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AsPath, Attributes};

    /// `NAME: [preference=N] [path=A,B] [med=N] [ibgp]`
    fn path(text: &str) -> (Path, bool) {
        let mut attributes = Attributes::default();
        let mut is_external = true;
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some(("preference", n)) => attributes.local_preference = n.parse().ok(),
                Some(("med", n)) => attributes.med = n.parse().ok(),
                Some(("path", all)) => {
                    let all = all.split(',').map(|it| it.parse().unwrap()).collect();
                    attributes.as_path = AsPath { segments: vec![(false, all)] };
                }
                Some(("origin", "?")) => attributes.origin = Origin::Incomplete,
                Some(("by", it)) => attributes.originator = it.parse().ok(),
                _ => is_external = word != "ibgp",
            }
        }
        (Path { next_hop: "192.0.2.1".parse().unwrap(), attributes }, is_external)
    }

    fn check(all: &[&str], expected: usize) {
        let all: Vec<_> = all.iter().map(|it| path(it)).collect();
        let candidate = |(n, (path, is_external)): (usize, &'_ (Path, bool))| {
            let identifier = Ipv4Addr::from(0xc000_0200 + u32::try_from(n).unwrap());
            (path.clone(), *is_external, identifier)
        };
        let made: Vec<_> = all.iter().enumerate().map(candidate).collect();
        let mut candidates: Vec<_> = made
            .iter()
            .map(|(path, is_external, identifier)| Candidate {
                path,
                is_external: *is_external,
                identifier: *identifier,
                address: (*identifier).into(),
            })
            .collect();
        for _ in 0..candidates.len() {
            let found = best(&candidates).unwrap();
            assert_eq!(found.identifier, made[expected].2);
            candidates.rotate_left(1);
        }
    }

    #[test]
    fn one_after_the_other_decides() {
        assert_eq!(best(&[]), None);
        check(&["", "preference=200 path=1,2,3 ibgp"], 1);
        check(&["path=1,2", "path=3"], 1);
        check(&["path=1 origin=?", "path=2"], 1);
        check(&["path=1 ibgp", "path=2"], 1);
        check(&["path=1", "path=2"], 0);
        check(&["by=192.0.2.200", "by=192.0.2.100"], 1);
    }

    #[test]
    fn what_a_neighbor_would_like_counts_among_its_own_paths() {
        check(&["path=1 med=9", "path=1 med=3"], 1);
        check(&["path=1 med=9", "path=2 med=3"], 0);
        // The first is unwanted beside the third, which is behind the second.
        check(&["path=1 med=9", "path=2", "path=1 med=3 ibgp"], 1);
    }
}
