//! A strict reader of Prometheus' text format 0.0.4: whatever is not exactly that is a panic that
//! names the line.

use std::collections::{BTreeMap, BTreeSet};

/// One line with a value.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

pub(crate) struct Page {
    pub(crate) samples: Vec<Sample>,
    types: BTreeMap<String, String>,
}

impl Page {
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line is a line: {text:?}");
        let (mut samples, mut types, mut helped) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        // The family that lines belong to, and those that are over.
        let (mut family, mut over) = (String::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(!help.is_empty() && is_name(name), "{line}");
                assert!(helped.insert(name.to_owned()), "HELP twice: {line}");
                over.insert(std::mem::replace(&mut family, name.to_owned()));
                assert!(!over.contains(name), "a family in two pieces: {line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert_eq!(name, family, "TYPE after its HELP: {line}");
                assert!(matches!(kind, "counter" | "gauge" | "histogram" | "summary"), "{line}");
                assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                let sample = sample(line);
                let kind = types.get(&family).unwrap_or_else(|| panic!("no TYPE: {line}"));
                let suffix = sample.name.strip_prefix(&family).unwrap_or("?");
                let is_right = match kind.as_str() {
                    "histogram" => matches!(suffix, "_bucket" | "_sum" | "_count"),
                    "summary" => matches!(suffix, "" | "_sum" | "_count"),
                    _ => suffix.is_empty(),
                };
                assert!(is_right, "{line} is not of {family}, a {kind}");
                samples.push(sample);
            }
        }
        let page = Self { samples, types };
        page.check_histograms();
        page.check_series();
        page
    }

    /// Buckets grow, and end with `+Inf`, which is the count.
    fn check_histograms(&self) {
        let mut buckets: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
        for sample in &self.samples {
            let Some(name) = sample.name.strip_suffix("_bucket") else { continue };
            let mut labels = sample.labels.clone();
            let bound = number(&labels.remove("le").expect("a bucket has a bound"));
            let series = (name.to_owned(), format!("{labels:?}"));
            buckets.entry(series).or_default().push((bound, sample.value));
        }
        for ((name, labels), buckets) in &buckets {
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}{labels}");
            let (bound, last) = *buckets.last().expect("a bucket");
            assert_eq!(bound, f64::INFINITY, "{name}{labels}");
            let of = |suffix: &str| {
                let name = format!("{name}{suffix}");
                let is_it = |it: &&Sample| it.name == name && format!("{:?}", it.labels) == *labels;
                self.samples.iter().find(is_it).unwrap_or_else(|| panic!("{name}{labels}")).value
            };
            assert_eq!(of("_count"), last, "{name}{labels}");
            assert!(of("_sum") >= 0.0, "{name}{labels}");
        }
        let with_buckets: BTreeSet<&str> = buckets.keys().map(|it| it.0.as_str()).collect();
        let histograms = self.types.iter().filter(|(_, kind)| *kind == "histogram");
        assert_eq!(histograms.map(|it| it.0.as_str()).collect::<BTreeSet<_>>(), with_buckets);
    }

    fn check_series(&self) {
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            let series = format!("{}{:?}", sample.name, sample.labels);
            assert!(seen.insert(series.clone()), "twice: {series}");
            if self.types.get(&sample.name).is_some_and(|it| it == "counter") {
                assert!(sample.value >= 0.0, "{series}");
            }
        }
    }

    /// The only sample of this name with these labels.
    pub(crate) fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<&Sample> {
        let fits = |it: &&Sample| {
            it.name == name
                && labels
                    .iter()
                    .all(|(key, value)| it.labels.get(*key).is_some_and(|it| it == value))
        };
        let mut found = self.samples.iter().filter(fits);
        let first = found.next();
        assert!(found.next().is_none(), "{name} {labels:?} is ambiguous");
        first
    }

    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.find(name, labels).unwrap_or_else(|| panic!("no {name} {labels:?}")).value
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.samples.iter().any(|it| it.name == name)
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_alphanumeric() || it == '_';
    text.chars().all(is_letter) && text.starts_with(|it: char| !it.is_ascii_digit())
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        _ => text.parse().unwrap_or_else(|_| panic!("{text:?} is no number")),
    }
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line:?}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, BTreeMap::new()),
        Some((name, rest)) => {
            let inner = rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}"));
            (name, labels(inner))
        }
    };
    assert!(is_name(name), "{line}");
    Sample { name: name.to_owned(), labels, value: number(value) }
}

fn labels(mut text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    loop {
        let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        assert!(is_name(name), "{text}");
        let (mut value, mut characters) = (String::new(), rest.char_indices());
        let end = loop {
            match characters.next().unwrap_or_else(|| panic!("no end: {text}")) {
                (index, '"') => break index,
                (_, '\\') => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, it @ ('\\' | '"'))) => value.push(it),
                    other => panic!("escaped {other:?}: {text}"),
                },
                (_, it) => value.push(it),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "label twice: {text}");
        match rest[end + 1..].strip_prefix(',') {
            Some(more) => text = more,
            None => {
                assert_eq!(&rest[end + 1..], "", "{text}");
                return labels;
            }
        }
    }
}

#[test]
fn what_is_not_the_format_is_refused() {
    let good = "# HELP a A.\n# TYPE a counter\na{b=\"x\\\"y\"} 1\n";
    assert_eq!(Page::parse(good).value("a", &[("b", "x\"y")]), 1.0);
    let head = "# HELP h H.\n# TYPE h histogram\n";
    for bad in [
        "a 1\n",
        "# HELP a A.\n# TYPE a counter\na 1",
        "# HELP a A.\n# TYPE a counter\na 1\n# HELP a A.\n",
        "# HELP a A.\n# TYPE a counter\na_total 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\na 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n# EOF\n",
        &format!("{head}h_bucket{{le=\"1\"}} 1\nh_sum 1\nh_count 1\n"),
        &format!("{head}h_bucket{{le=\"1\"}} 2\nh_bucket{{le=\"+Inf\"}} 1\nh_sum 1\nh_count 1\n"),
        &format!("{head}h_bucket{{le=\"+Inf\"}} 1\nh_sum 1\nh_count 2\n"),
    ] {
        assert!(std::panic::catch_unwind(|| Page::parse(bad)).is_err(), "{bad}");
    }
}
