//! In which order sizes change, so that no container is ever allowed more than its pod: a pod's
//! cgroup grows before its containers and shrinks after them, and of containers those that shrink
//! are first. Memory, then processors. Pure; as upstream's `doPodResizeAction`.

use node_api::ContainerId;
use node_api::containers::Resources;

use super::Change;
use crate::allocation::Size;
use crate::pod_worker::resize::is_less;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Pod(Resources),
    Container(ContainerId, Size, Resources),
}

pub(super) fn writes(
    (current, target): &(Resources, Resources),
    containers: &[Change],
) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut pod = current.clone();
    let mut set = |change: &mut dyn FnMut(&mut Resources), writes: &mut Vec<Write>| {
        let before = pod.clone();
        change(&mut pod);
        if pod != before {
            writes.push(Write::Pod(pod.clone()));
        }
    };
    // A limit that is lifted grows.
    let memory = target.memory_limit;
    let is_memory_growing = is_less(current.memory_limit, memory);
    if is_memory_growing {
        set(&mut |it| it.memory_limit = memory, &mut writes);
    }
    let mut sizes: Vec<Size> = containers.iter().map(|it| it.from).collect();
    for index in ordered(containers, |it| (it.memory_limit, it.memory_request)) {
        let (change, size) = (&containers[index], &mut sizes[index]);
        size.memory_limit = change.to.memory_limit;
        size.memory_request = change.to.memory_request;
        writes.push(Write::Container(change.id.clone(), *size, size.resources(&change.others)));
    }
    if !is_memory_growing {
        set(&mut |it| it.memory_limit = memory, &mut writes);
    }

    let (quota, shares) = (target.cpu_quota, target.cpu_shares);
    let is_quota_growing = is_less(current.cpu_quota.map(|it| it.quota), quota.map(|it| it.quota));
    let is_share_growing = current.cpu_shares < shares;
    if is_quota_growing {
        set(&mut |it| it.cpu_quota = quota, &mut writes);
    }
    if is_share_growing {
        set(&mut |it| it.cpu_shares = shares, &mut writes);
    }
    for index in ordered(containers, |it| (it.cpu_limit, it.cpu_request)) {
        let (change, size) = (&containers[index], &mut sizes[index]);
        size.cpu_limit = change.to.cpu_limit;
        size.cpu_request = change.to.cpu_request;
        writes.push(Write::Container(change.id.clone(), *size, size.resources(&change.others)));
    }
    if !is_share_growing {
        set(&mut |it| it.cpu_shares = shares, &mut writes);
    }
    if !is_quota_growing {
        set(&mut |it| it.cpu_quota = quota, &mut writes);
    }
    writes
}

/// Those that change, the ones that shrink first: by limit, or by request where the limit stays.
fn ordered(containers: &[Change], of: impl Fn(&Size) -> (i64, i64)) -> Vec<usize> {
    let mut changing: Vec<usize> = (0..containers.len())
        .filter(|it| of(&containers[*it].from) != of(&containers[*it].to))
        .collect();
    // No limit is the largest.
    let rank = |(limit, request): (i64, i64)| (if limit == 0 { i64::MAX } else { limit }, request);
    changing.sort_by_key(|it| rank(of(&containers[*it].to)) > rank(of(&containers[*it].from)));
    changing
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use node_api::ContainerId;
    use node_api::containers::{CpuQuota, Resources};

    use super::{Change, Write, writes};
    use crate::allocation::Size;

    /// `cpu memory`, in thousandths and bytes; `-` is no limit.
    fn limits(text: &str) -> Resources {
        let mut words = text.split(' ');
        let mut next = || words.next().unwrap().parse::<u64>().ok();
        let period = Duration::from_millis(100);
        Resources {
            cpu_quota: next().map(|it| CpuQuota { quota: Duration::from_micros(it * 100), period }),
            memory_limit: next(),
            cpu_shares: Some(2),
            ..Resources::default()
        }
    }

    fn render(resources: &Resources) -> String {
        let cpu = resources.cpu_quota.map(|it| it.quota.as_micros() / 100);
        let or = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
        format!(
            "{} {}",
            or(cpu.map(|it| it.to_string())),
            or(resources.memory_limit.map(|it| it.to_string()))
        )
    }

    /// Each container is `name cpu memory > cpu memory`, limits that are requests, too.
    fn check(pod: (&str, &str), containers: &[&str], expected: &[&str]) {
        let changes: Vec<Change> = containers
            .iter()
            .map(|it| {
                let words: Vec<&str> = it.split(' ').collect();
                let size = |cpu: &str, memory: &str| {
                    let number = |it: &str| it.parse().unwrap_or(0);
                    let (cpu_limit, memory_limit) = (number(cpu), number(memory));
                    Size {
                        cpu_limit,
                        memory_limit,
                        cpu_request: cpu_limit,
                        memory_request: memory_limit,
                    }
                };
                Change {
                    id: ContainerId::new(words[0]),
                    name: words[0].to_owned(),
                    from: size(words[1], words[2]),
                    to: size(words[4], words[5]),
                    others: Resources::default(),
                }
            })
            .collect();
        let shown =
            writes(&(limits(pod.0), limits(pod.1)), &changes).into_iter().map(|it| match it {
                Write::Pod(it) => format!("pod {}", render(&it)),
                Write::Container(id, _, it) => format!("{id} {}", render(&it)),
            });
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_pod_grows_before_its_containers_and_shrinks_after_them() {
        check(
            ("100 10", "200 20"),
            &["a 100 10 > 200 20"],
            &["pod 100 20", "a 100 20", "pod 200 20", "a 200 20"],
        );
        check(
            ("200 20", "100 10"),
            &["a 200 20 > 100 10"],
            &["a 200 10", "pod 200 10", "a 100 10", "pod 100 10"],
        );
        check(
            ("200 20", "300 10"),
            &["a 200 20 > 300 10"],
            &["a 200 10", "pod 200 10", "pod 300 10", "a 300 10"],
        );
    }

    #[test]
    fn containers_that_shrink_make_room_for_those_that_grow() {
        check(
            ("300 30", "300 30"),
            &["a 100 10 > 150 15", "b 200 20 > 150 15"],
            &["b 200 15", "a 100 15", "b 150 15", "a 150 15"],
        );
    }

    #[test]
    fn what_does_not_change_is_not_written() {
        check(("100 10", "100 10"), &[], &[]);
        check(("100 10", "200 10"), &["a 100 10 > 200 10"], &["pod 200 10", "a 200 10"]);
        check(("100 10", "100 20"), &[], &["pod 100 20"]);
    }

    #[test]
    fn a_limit_that_comes_shrinks() {
        check(
            ("- -", "100 10"),
            &["a - - > 100 10"],
            &["a - 10", "pod - 10", "a 100 10", "pod 100 10"],
        );
    }
}
