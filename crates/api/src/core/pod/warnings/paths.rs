//! Files of one volume that are put in each other's place: the last one stays, or none can be made.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection};

use crate::check::text;

struct Place {
    path: String,
    /// Who puts it there; empty if there is but one.
    source: String,
}

impl Place {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (format!("{}/", self.path), format!("{}/", other.path));
        let has_paths = !self.path.is_empty() && !other.path.is_empty();
        has_paths && (one.starts_with(&two) || two.starts_with(&one))
    }

    fn render(&self) -> String {
        match self.source.as_str() {
            "" => format!("{:?}", self.path),
            source => format!("{:?} ({source})", self.path),
        }
    }
}

pub(super) fn overlaps(volumes: &[Volume]) -> Vec<String> {
    let mut warnings = Vec::new();
    for volume in volumes {
        let mut say = |what: &str, places: &[Place]| {
            for (place, earlier) in pairs(places) {
                warnings.push(format!(
                    "volume {:?} ({what}): overlapping paths: {} with {}",
                    volume.name,
                    place.render(),
                    earlier.render()
                ));
            }
        };
        if let Some(it) = &volume.config_map {
            say(&format!("ConfigMap {:?}", it.name), &of_keys(it.items.as_ref(), ""));
        }
        if let Some(it) = &volume.secret {
            let name = text(it.secret_name.as_ref());
            say(&format!("Secret {name:?}"), &of_keys(it.items.as_ref(), ""));
        }
        if let Some(it) = &volume.downward_api {
            say("DownwardAPI", &of_fields(it.items.as_ref(), ""));
        }
        if let Some(projected) = &volume.projected {
            let sources = projected.sources.as_deref().unwrap_or_default();
            warnings.extend(of_projected(&volume.name, sources));
        }
    }
    warnings
}

/// Each place with those before it that it overlaps.
fn pairs(places: &[Place]) -> impl Iterator<Item = (&Place, &Place)> {
    let with_earlier = |(index, place)| places[..index].iter().map(move |it| (place, it));
    let all = places.iter().enumerate().flat_map(with_earlier);
    all.filter(|(place, earlier): &(&Place, &Place)| place.overlaps(earlier))
}

fn of_keys(items: Option<&Vec<KeyToPath>>, source: &str) -> Vec<Place> {
    items.into_iter().flatten().map(|it| Place::new(&it.path, source)).collect()
}

fn of_fields(items: Option<&Vec<DownwardAPIVolumeFile>>, source: &str) -> Vec<Place> {
    items.into_iter().flatten().map(|it| Place::new(&it.path, source)).collect()
}

/// In the order of the sources, what is said of each after what is said of those before it.
fn of_projected(volume: &str, sources: &[VolumeProjection]) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    for source in sources {
        if *source == VolumeProjection::default() {
            warnings.push(format!("volume {volume:?} (Projected) has no sources provided"));
            continue;
        }
        for place in of_source(source) {
            for earlier in places.iter().filter(|it| place.overlaps(it)) {
                warnings.push(format!(
                    "volume {volume:?} (Projected): overlapping paths: {} with {}",
                    place.render(),
                    earlier.render()
                ));
            }
            places.push(place);
        }
    }
    warnings
}

fn of_source(source: &VolumeProjection) -> Vec<Place> {
    if let Some(it) = source.config_map.as_ref().filter(|it| it.items.is_some()) {
        return of_keys(it.items.as_ref(), &format!("ConfigMap {:?}", it.name));
    }
    if let Some(it) = source.secret.as_ref().filter(|it| it.items.is_some()) {
        return of_keys(it.items.as_ref(), &format!("Secret {:?}", it.name));
    }
    if let Some(it) = source.downward_api.as_ref().filter(|it| it.items.is_some()) {
        return of_fields(it.items.as_ref(), "DownwardAPI");
    }
    if let Some(it) = &source.service_account_token {
        return vec![Place::new(&it.path, "ServiceAccountToken")];
    }
    if let Some(it) = &source.cluster_trust_bundle {
        let name = it.name.as_ref().or(it.signer_name.as_ref());
        return vec![Place::new(&it.path, &format!("ClusterTrustBundle {:?}", text(name)))];
    }
    let Some(it) = &source.pod_certificate else { return Vec::new() };
    let named = [
        (&it.certificate_chain_path, "PodCertificate chain"),
        (&it.key_path, "PodCertificate key"),
        (&it.credential_bundle_path, "PodCertificate credential bundle"),
    ];
    let named = named.into_iter().map(|(path, source)| Place::new(text(path.as_ref()), source));
    named.filter(|it| !it.path.is_empty()).collect()
}
