//! Which name was meant.

/// The candidate that takes the fewest changes of a letter, if they are few for its length.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = name.to_ascii_lowercase();
    let distance = |it: &str| edits(wanted.as_bytes(), it.to_ascii_lowercase().as_bytes());
    let nearest = candidates.into_iter().map(|it| (distance(it), it)).min()?;
    Some(nearest).filter(|(edits, it)| edits * 2 <= it.len()).map(|it| it.1)
}

/// Levenshtein's distance, row by row.
fn edits(one: &[u8], two: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (index, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in two.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn the_nearest_name_is_the_one_with_the_fewest_changes() {
        assert_eq!(edits(b"kitten", b"sitting"), 3);
        assert_eq!(edits(b"", b"abc"), 3);
        let names = ["WatchList", "WatchListClient", "CronJobs"];
        assert_eq!(nearest("watchlist", names), Some("WatchList"));
        assert_eq!(nearest("WacthListCleint", names), Some("WatchListClient"));
        assert_eq!(nearest("Kubernetes", names), None);
        assert_eq!(nearest("Anything", []), None);
    }
}
