//! Who uses a volume. Pure.

use api::core::PersistentVolume;

pub(super) const FINALIZER: &str = "kubernetes.io/pv-protection";

/// Its claim, while the volume is bound to it: that is for whoever binds volumes to say.
pub(super) fn users(volume: &PersistentVolume) -> Vec<String> {
    let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
    if phase != Some("Bound") {
        return Vec::new();
    }
    let claim = volume.spec.as_ref().and_then(|it| it.claim_ref.as_ref());
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let named = claim.map(|it| format!("{}/{}", text(&it.namespace), text(&it.name)));
    vec![named.unwrap_or_else(|| "one that the volume does not name".to_owned())]
}
