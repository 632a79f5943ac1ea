//! What was asked for on the command line.

pub(crate) struct Flags {
    pub(crate) ours: String,
    pub(crate) upstream: String,
    pub(crate) n_requests: usize,
    /// One kind alone.
    pub(crate) kind: Option<String>,
    pub(crate) seed: u64,
    /// Groups of differences that are shown.
    pub(crate) n_shown: usize,
    pub(crate) examples: Vec<String>,
}

const USAGE: &str =
    "differ OURS UPSTREAM [--requests N] [--kind K] [--seed S] [--show N] EXAMPLE...";

impl Flags {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (Some(ours), Some(upstream)) = (words.next(), words.next()) else {
            return Err(USAGE.to_owned());
        };
        let mut flags = Self {
            ours,
            upstream,
            n_requests: 10_000,
            kind: None,
            seed: 1,
            n_shown: 20,
            examples: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().unwrap_or_default();
                value.parse::<u64>().map_err(|_| format!("{word} takes a number, not {value:?}"))
            };
            match word.as_str() {
                "--requests" => flags.n_requests = number()? as usize,
                "--seed" => flags.seed = number()?,
                "--show" => flags.n_shown = number()? as usize,
                "--kind" => flags.kind = Some(words.next().ok_or("--kind takes the name of one")?),
                flag if flag.starts_with('-') => return Err(format!("unknown {flag}: {USAGE}")),
                _ => flags.examples.push(word),
            }
        }
        Ok(flags)
    }
}
