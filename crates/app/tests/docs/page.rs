//! The commands of a page, and what it says that they print.

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Where it is on the page.
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) expected: Vec<String>,
    /// Where what it prints ends on the page.
    pub(crate) end: usize,
    /// Whether the reader sees it. Others only have to succeed.
    pub(crate) is_shown: bool,
}

enum Place {
    Text,
    /// In a block that is run, or is left out.
    Block {
        is_run: bool,
    },
    /// In a block of something else.
    Other,
}

impl Page {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut page = Self::default();
        let mut place = Place::Text;
        let mut is_left_out = false;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            match place {
                Place::Text => {
                    if let Some(why) = comment(line, "not run:") {
                        if why.is_empty() {
                            return Err(format!("line {number}: say why it is not run"));
                        }
                        is_left_out = true;
                    } else if let Some(command) = comment(line, "first:") {
                        page.steps.push(Step::new(number, command, false));
                    } else if line.trim() == "```console" {
                        place = Place::Block { is_run: !is_left_out };
                        is_left_out = false;
                    } else if line.trim_start().starts_with("```") {
                        place = Place::Other;
                    }
                }
                Place::Other | Place::Block { .. } if line.trim() == "```" => place = Place::Text,
                Place::Block { is_run: true } => page.take(number, line)?,
                Place::Other | Place::Block { .. } => {}
            }
        }
        match place {
            Place::Text => Ok(page),
            _ => Err("a block does not end".to_owned()),
        }
    }

    fn take(&mut self, number: usize, line: &str) -> Result<(), String> {
        let last = self.steps.last_mut();
        if let Some(step) = last.filter(|it| it.command.ends_with('\\') && it.is_shown) {
            step.end = number;
            step.command.pop();
            step.command.push_str(line.trim_start());
            return Ok(());
        }
        let command = line.strip_prefix("# ").or_else(|| line.strip_prefix("$ "));
        match (command, self.steps.last_mut()) {
            (Some(command), _) => self.steps.push(Step::new(number, command, true)),
            (None, Some(step)) if step.is_shown => {
                step.expected.push(line.to_owned());
                step.end = number;
            }
            (None, _) => return Err(format!("line {number}: a block begins with a command")),
        }
        Ok(())
    }
}

impl Step {
    fn new(line: usize, command: &str, is_shown: bool) -> Self {
        Self { line, command: command.to_owned(), expected: Vec::new(), end: line, is_shown }
    }
}

/// `<!-- KEY VALUE -->`
fn comment<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let inner = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    inner.strip_prefix(key).map(str::trim)
}

#[test]
fn a_page_is_its_commands_in_order() {
    let text = "\
text
<!-- first: touch x -->
```console
# ls \\
    x
x
$ pwd
```
```
# no command
```
<!-- not run: it takes long -->
```console
# make world
```
";
    let page = Page::parse(text).unwrap();
    let steps: Vec<_> =
        page.steps.iter().map(|it| (it.command.as_str(), it.expected.join("|"))).collect();
    assert_eq!(
        steps,
        [("touch x", String::new()), ("ls x", "x".to_owned()), ("pwd", String::new())]
    );
    assert!(Page::parse("```console\nno prompt\n```").is_err());
    assert!(Page::parse("```console\n# ls\n").is_err());
    assert!(Page::parse("<!-- not run: -->").is_err());
}
