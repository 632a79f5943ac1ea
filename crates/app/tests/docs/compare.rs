//! Whether a program prints what a page says. Numbers, generated names and the width of columns may
//! differ; a line `...` stands for any lines, and ` ...` at the end of a line for the rest of it.

/// The error shows the first line that differs.
pub(crate) fn compare(expected: &[String], printed: &str) -> Result<(), String> {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let trimmed = |lines: Vec<String>| -> Vec<String> {
        let end = lines.iter().rposition(|it| !it.is_empty()).map_or(0, |it| it + 1);
        lines[..end].to_vec()
    };
    let expected = trimmed(expected.iter().map(|it| it.trim_end().to_owned()).collect());
    let printed = trimmed(printed.iter().map(|it| (*it).to_owned()).collect());
    match first_difference(&expected, &printed) {
        None => Ok(()),
        Some((wanted, found)) => Err(format!("the page says: {wanted}\nit prints:     {found}")),
    }
}

fn first_difference(expected: &[String], printed: &[String]) -> Option<(String, String)> {
    let Some((first, rest)) = expected.split_first() else {
        return printed.first().map(|it| ("(nothing more)".to_owned(), it.clone()));
    };
    if first.trim() == "..." {
        let mut closest = None;
        for skip in 0..=printed.len() {
            match first_difference(rest, &printed[skip..]) {
                None => return None,
                Some(difference) => closest = closest.or(Some(difference)),
            }
        }
        return closest;
    }
    match printed.split_first() {
        None => Some((first.clone(), "(nothing more)".to_owned())),
        Some((line, more)) if is_same(first, line) => first_difference(rest, more),
        Some((line, _)) => Some((first.clone(), line.clone())),
    }
}

fn is_same(expected: &str, printed: &str) -> bool {
    match expected.strip_suffix(" ...") {
        Some(start) => plain(printed).starts_with(plain(start).trim_end()),
        None => plain(expected) == plain(printed),
    }
}

/// The line with what varies from run to run made the same.
fn plain(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(plain_word).collect();
    // `2m5s` and `7s`, `3 ms` and `1.2 s` are all some time.
    let words = words.into_iter().filter(|it| !matches!(it.as_str(), "ms" | "s" | "(0"));
    words.collect::<Vec<_>>().join(" ")
}

fn plain_word(word: &str) -> String {
    let parts: Vec<String> = word.split('-').map(plain_part).collect();
    parts.join("-")
}

/// Generated parts of names become `x`; numbers, with their units and dots, `0`.
fn plain_part(part: &str) -> String {
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    let has_digit = part.contains(|it: char| it.is_ascii_digit());
    let vowels = ['a', 'e', 'i', 'o', 'u'];
    let is_generated = matches!(part.len(), 5 | 8..=10)
        && part.chars().all(is_plain)
        && (has_digit || !part.contains(vowels));
    if is_generated && part.contains(|it: char| it.is_ascii_lowercase()) {
        return "x".to_owned();
    }
    let mut plain = String::new();
    for letter in part.chars() {
        let is_number = letter.is_ascii_digit() || (letter == '.' && plain.ends_with('0'));
        match letter {
            _ if is_number && plain.ends_with('0') => {}
            _ if is_number => plain.push('0'),
            // Units of time within a word.
            'm' | 's' | 'h' | 'd' if plain.ends_with('0') => {}
            _ => plain.push(letter),
        }
    }
    plain
}

#[test]
fn what_varies_may_vary_and_nothing_else() {
    let check = |expected: &str, printed: &str, is_right: bool| {
        let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
        assert_eq!(compare(&expected, printed).is_ok(), is_right, "{expected:?} {printed:?}");
    };
    check(
        "web-cjzq8zhpmt-mld4s   1/1  Running  0  2s",
        "web-7d9f8c6b54-x2x4z 1/1 Running 0 1m3s",
        true,
    );
    check(
        "web-cjzq8zhpmt-mld4s   1/1  Running  0  2s",
        "web-7d9f8c6b54-x2x4z 1/1 Pending 0 1m3s",
        false,
    );
    check("ready (96 ms)", "ready (102 ms)", true);
    check("a\n...\nb", "a\n1\n2\nb", true);
    check("a\n...", "a", true);
    check("a\n...\nb", "a\n1\n2", false);
    check("error: port 6443 ...", "error: port 7443 is taken", true);
    check("", "surprise", false);
    check("one", "", false);
    check("deployment.apps/web created", "deployment.apps/web configured", false);
}
