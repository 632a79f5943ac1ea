//! Huge pages: the machine's pools by page size, what pods ask of them, and how kernel and
//! Kubernetes name the sizes. Pure.

use std::collections::BTreeMap;

use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// How resources of huge pages begin; the page's size follows.
const PREFIX: &str = "hugepages-";
/// No architecture has more sizes.
const SIZES_MAX: usize = 8;

/// The pools of a machine: bytes of pages that were set aside, by the page's size. None where the
/// kernel cannot hold pods apart in their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// Ascending by size; 0 is no pool.
    pools: [(u64, u64); SIZES_MAX],
}

impl FromIterator<(u64, u64)> for Pools {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(pools: I) -> Self {
        let sorted: BTreeMap<u64, u64> = pools.into_iter().filter(|(size, _)| *size > 0).collect();
        let mut all = Self::default();
        for (slot, pool) in all.pools.iter_mut().zip(sorted) {
            *slot = pool;
        }
        all
    }
}

impl Pools {
    pub const NONE: Self = Self { pools: [(0, 0); SIZES_MAX] };

    fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pools.iter().copied().filter(|(size, _)| *size > 0)
    }

    /// By the names that a Node's resources have.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (String, i64)> + '_ {
        let whole = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.iter().map(move |(size, bytes)| (format!("{PREFIX}{}", quantity(size)), whole(bytes)))
    }

    /// They are no memory for anything else.
    pub(crate) fn total(&self) -> u64 {
        self.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
    }

    /// What one container is held to, as cgroups name the sizes: what it asks for, and nothing of
    /// the others.
    pub(crate) fn limits(&self, pod: &Pod, container: &Container) -> BTreeMap<String, u64> {
        let of_pod = pod.spec.as_ref().and_then(|it| it.resources.as_ref()?.limits.as_ref());
        let of_container = container.resources.as_ref().and_then(|it| it.limits.as_ref());
        let named = |limits: Option<&BTreeMap<String, Quantity>>| -> BTreeMap<u64, u64> {
            limits.into_iter().flatten().filter_map(|(name, it)| pages(name, it)).collect()
        };
        let mut wanted: BTreeMap<u64, u64> = self.iter().map(|(size, _)| (size, 0)).collect();
        wanted.extend(named(of_pod));
        wanted.extend(named(of_container));
        wanted.into_iter().map(|(size, limit)| (kernel_name(size), limit)).collect()
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("medium: {0} can't be used if container requests multiple huge page sizes")]
    Several(String),
    #[error(
        "medium {0}: hugePages storage requested, but there is no resource request for huge pages"
    )]
    NotRequested(String),
    #[error("storage medium {0:?} is not supported")]
    Unknown(String),
}

/// The page size of a volume on `HugePages` or `HugePages-<size>`, and how much of such pages the
/// pod may use.
pub(crate) fn of_medium(spec: &PodSpec, medium: &str) -> Result<(u64, Option<u64>), Error> {
    let requested = requested(spec);
    let size = match medium.strip_prefix("HugePages-") {
        Some(size) => parse(size).ok_or_else(|| Error::Unknown(medium.to_owned()))?,
        None if medium == "HugePages" => match requested.keys().collect::<Vec<_>>()[..] {
            [] => return Err(Error::NotRequested(medium.to_owned())),
            [size] => *size,
            _ => return Err(Error::Several(medium.to_owned())),
        },
        None => return Err(Error::Unknown(medium.to_owned())),
    };
    let amount = requested.get(&size).ok_or_else(|| Error::NotRequested(medium.to_owned()))?;
    Ok((size, Some(*amount).filter(|it| *it > 0)))
}

/// By page size, over all containers.
fn requested(spec: &PodSpec) -> BTreeMap<u64, u64> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_containers = containers.filter_map(|it| it.resources.as_ref()?.requests.as_ref());
    let of_pod = spec.resources.as_ref().and_then(|it| it.requests.as_ref());
    let mut requested = BTreeMap::<u64, u64>::new();
    for (name, amount) in of_containers.chain(of_pod).flatten() {
        let Some((size, bytes)) = pages(name, amount) else { continue };
        let sum = requested.entry(size).or_default();
        *sum = sum.saturating_add(bytes);
    }
    requested
}

/// The page size that a resource's name says, and its amount.
fn pages(name: &str, amount: &Quantity) -> Option<(u64, u64)> {
    let size = parse(name.strip_prefix(PREFIX)?)?;
    let bytes = Amount::parse(&amount.0).ok()?.value();
    Some((size, u64::try_from(bytes).ok()?))
}

fn parse(size: &str) -> Option<u64> {
    let bytes = Amount::parse(size).ok()?.value();
    u64::try_from(bytes).ok().filter(|it| *it > 0)
}

/// `2Mi`
fn quantity(size: u64) -> String {
    let (amount, unit) = scaled(size, ["", "Ki", "Mi", "Gi"]);
    format!("{amount}{unit}")
}

/// `2MB`, as the files of cgroups have it.
fn kernel_name(size: u64) -> String {
    let (amount, unit) = scaled(size, ["B", "KB", "MB", "GB"]);
    format!("{amount}{unit}")
}

fn scaled(size: u64, units: [&'static str; 4]) -> (u64, &'static str) {
    let mut amount = size;
    for unit in &units[..3] {
        if !amount.is_multiple_of(1024) || amount == 0 {
            return (amount, unit);
        }
        amount /= 1024;
    }
    (amount, units[3])
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::{Pools, kernel_name, of_medium, quantity};

    fn pod(requests: &[Value]) -> Pod {
        let containers = requests
            .iter()
            .map(|it| json!({ "name": "c", "resources": { "requests": it, "limits": it } }));
        let containers: Vec<Value> = containers.collect();
        serde_json::from_value(json!({ "spec": { "containers": containers } })).unwrap()
    }

    #[test]
    fn sizes_have_two_names() {
        let check = |size, of_api: &str, of_kernel: &str| {
            assert_eq!((&*quantity(size), &*kernel_name(size)), (of_api, of_kernel));
        };
        check(64 << 10, "64Ki", "64KB");
        check(2 << 20, "2Mi", "2MB");
        check(32 << 20, "32Mi", "32MB");
        check(1 << 30, "1Gi", "1GB");
        check(16 << 30, "16Gi", "16GB");
    }

    #[test]
    fn a_volume_has_the_page_size_that_the_pod_asks_for() {
        let check = |requests: &[Value], medium: &str, expected: Result<(u64, u64), &str>| {
            let spec = pod(requests).spec.unwrap();
            let seen = of_medium(&spec, medium).map(|(size, limit)| (size, limit.unwrap_or(0)));
            let seen = seen.map_err(|err| err.to_string());
            assert_eq!(seen, expected.map_err(str::to_owned), "{medium}");
        };
        let (two, gib) = (json!({ "hugepages-2Mi": "4Mi" }), json!({ "hugepages-1Gi": "1Gi" }));
        let none = "medium HugePages: hugePages storage requested, but there is no resource \
                    request for huge pages";
        check(from_ref(&two), "HugePages", Ok((2 << 20, 4 << 20)));
        check(&[two.clone(), two.clone()], "HugePages-2Mi", Ok((2 << 20, 8 << 20)));
        check(&[json!({ "cpu": "1" })], "HugePages", Err(none));
        let several = "medium: HugePages can't be used if container requests multiple huge page \
                       sizes";
        check(&[two.clone(), gib.clone()], "HugePages", Err(several));
        check(&[two.clone(), gib.clone()], "HugePages-1Gi", Ok((1 << 30, 1 << 30)));
        let other = "medium HugePages-1Gi: hugePages storage requested, but there is no resource \
                     request for huge pages";
        check(from_ref(&two), "HugePages-1Gi", Err(other));
        check(
            from_ref(&two),
            "HugePages-x",
            Err("storage medium \"HugePages-x\" is not supported"),
        );
        check(&[two], "Tape", Err("storage medium \"Tape\" is not supported"));
    }

    #[test]
    fn a_container_gets_what_it_asks_for_and_nothing_of_other_sizes() {
        let pools: Pools = [(1 << 30, 2 << 30), (2 << 20, 64 << 20)].into_iter().collect();
        let check = |pools: Pools, requests: Value, expected: Value| {
            let pod = pod(&[requests]);
            let container = &pod.spec.as_ref().unwrap().containers[0];
            assert_eq!(json!(pools.limits(&pod, container)), expected);
        };
        check(pools, json!({ "hugepages-2Mi": "4Mi" }), json!({ "2MB": 4 << 20, "1GB": 0 }));
        check(pools, json!({}), json!({ "2MB": 0, "1GB": 0 }));
        check(Pools::default(), json!({}), json!({}));
        let resources: Vec<_> = pools.resources().collect();
        let of = |name: &str, bytes| (name.to_owned(), bytes);
        assert_eq!(resources, [of("hugepages-2Mi", 64 << 20), of("hugepages-1Gi", 2 << 30)]);
        assert_eq!(pools.total(), (2 << 30) + (64 << 20));
    }
}
