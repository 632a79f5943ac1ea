//! What is kept of pods that claim devices, for those who make and clear their claims.

use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimsPart {
    pub claims: Box<[PodClaim]>,
    /// The claim that the scheduler made for its extended resources; empty: none.
    pub extended: Box<str>,
}

/// One claim, as the pod names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodClaim {
    pub name: Box<str>,
    /// Of a claim that somebody made; empty: none.
    pub claim: Box<str>,
    /// Of a template that one is made from; empty: none.
    pub template: Box<str>,
    /// Which one was made, as the status says; empty: none is needed. Absent: nobody has said.
    pub made: Option<Box<str>>,
}

impl PodClaim {
    /// The claim that the pod has, if that is known.
    pub fn resolved(&self) -> Option<&str> {
        let named = if self.claim.is_empty() { self.made.as_deref() } else { Some(&*self.claim) };
        named.filter(|it| !it.is_empty())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpecClaim {
    name: Option<Box<str>>,
    resource_claim_name: Option<Box<str>>,
    resource_claim_template_name: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimStatus {
    name: Option<Box<str>>,
    resource_claim_name: Option<Box<str>>,
}

/// Absent for the many pods that have none.
pub(super) fn read(
    claims: Option<Vec<SpecClaim>>,
    statuses: Option<&Vec<ClaimStatus>>,
    extended: Option<ClaimStatus>,
) -> Option<Box<ClaimsPart>> {
    let claims = claims.unwrap_or_default();
    let extended = extended.and_then(|it| it.resource_claim_name).unwrap_or_default();
    if claims.is_empty() && extended.is_empty() {
        return None;
    }
    let made = |name: &str| {
        let mut all = statuses.into_iter().flatten();
        let found = all.find(|it| it.name.as_deref() == Some(name))?;
        Some(found.resource_claim_name.clone().unwrap_or_default())
    };
    let claims = claims.into_iter().map(|it| {
        let name = it.name.unwrap_or_default();
        PodClaim {
            made: made(&name),
            name,
            claim: it.resource_claim_name.unwrap_or_default(),
            template: it.resource_claim_template_name.unwrap_or_default(),
        }
    });
    Some(Box::new(ClaimsPart { claims: claims.collect(), extended }))
}
