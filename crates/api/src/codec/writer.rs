//! Writes JSON as Go does, by the form of the object, while serde writes it: one pass, and one
//! encoder for every type. What has to be there and is not is added, what must not be there empty
//! is left out: so the name of a field is written when its value is known not to be nothing.
//!
//! Fields come in the order of their names, which is that of the forms: those that are passed over
//! are absent.

use std::io::{Result, Write};

use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use super::form::{Count, Field, Form, Of};

/// What a time is called that was never set.
const ZERO_TIME: &str = "0001-01-01T00:00:00";

#[derive(Default)]
pub(super) struct GoWriter {
    /// Of the whole; `None`: nothing is added or left out.
    root: Option<&'static Form>,
    /// What is open around the next value, the innermost last.
    open: Vec<Open>,
    /// The field whose value comes next, or whose text has nothing in it so far. Its name is not
    /// written yet.
    pending: Option<&'static Field>,
    /// A field's name is being read.
    is_name: bool,
    /// A time is being read.
    time: String,
    /// The whole is a value of which nothing is known but that it is JSON.
    is_raw_root: bool,
    /// The text that is being written is in such a value.
    is_raw_text: bool,
}

struct Open {
    what: What,
    /// The field that this is the value of, if nothing is written of either yet.
    held: Option<&'static Field>,
}

enum What {
    Struct {
        form: &'static Form,
        /// Fields before this one are written or left out.
        next: usize,
        is_first: bool,
    },
    /// A list, or a map, of these.
    Many(Of),
}

impl GoWriter {
    pub(super) fn new(root: Option<&'static Form>) -> Self {
        Self { root, ..Self::default() }
    }

    /// Of a value that others keep, and compare, as text.
    pub(super) fn raw() -> Self {
        Self { is_raw_root: true, ..Self::default() }
    }

    /// Whether what comes is in a value of which its object knows nothing. Go gives such values back
    /// as the text that they are, with `<`, `>` and `&` escaped, and clients compare that text.
    fn is_in_raw(&self) -> bool {
        if self.is_raw_root {
            return true;
        }
        match (self.pending, self.open.last()) {
            (Some(field), _) => matches!(field.of, Of::Any),
            (None, Some(Open { what: What::Many(Of::Any), .. })) => self.root.is_some(),
            _ => false,
        }
    }

    /// What the next value is, if it is not that of a field.
    fn of(&self) -> Of {
        match self.open.last() {
            Some(Open { what: What::Many(of), .. }) => *of,
            // A name that the form does not have: those of the object itself.
            Some(_) => Of::Any,
            None => self.root.map_or(Of::Any, Of::Struct),
        }
    }

    fn is_in_struct(&self) -> bool {
        matches!(self.open.last(), Some(Open { what: What::Struct { .. }, .. }))
    }

    /// `"name":`, in the struct that is `up` levels above the innermost.
    fn write_name<W: ?Sized + Write>(&mut self, w: &mut W, name: &str, up: usize) -> Result<()> {
        let at = self.open.len().checked_sub(up + 1);
        let open = at.and_then(|it| self.open.get_mut(it));
        if let Some(Open { what: What::Struct { is_first, .. }, .. }) = open
            && !std::mem::take(is_first)
        {
            w.write_all(b",")?;
        }
        w.write_all(b"\"")?;
        w.write_all(name.as_bytes())?;
        w.write_all(b"\":")
    }

    fn write_absent<W: ?Sized + Write>(&mut self, w: &mut W, field: &Field) -> Result<()> {
        if field.absent.is_empty() {
            return Ok(());
        }
        self.write_name(w, field.name, 0)?;
        w.write_all(field.absent.as_bytes())
    }

    /// Takes the name of the next field, after those that are absent before it.
    fn select<W: ?Sized + Write>(&mut self, w: &mut W, name: &str) -> Result<()> {
        let Some(Open { what: What::Struct { form, next, .. }, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        let rest = &form.fields[*next..];
        let Some(n_passed) = rest.iter().position(|it| it.name == name) else {
            // Of the object itself: what it is.
            debug_assert!(
                matches!(name, "apiVersion" | "kind"),
                "{name} is not where it should be"
            );
            return self.write_name(w, name, 0);
        };
        *next += n_passed + 1;
        for field in &rest[..n_passed] {
            self.write_absent(w, field)?;
        }
        self.pending = Some(&rest[n_passed]);
        Ok(())
    }

    /// Before a value without parts; whether it is to be written.
    fn begin_scalar<W: ?Sized + Write>(&mut self, w: &mut W, is_zero: bool) -> Result<bool> {
        let Some(field) = self.pending.take() else { return Ok(true) };
        if is_zero && field.is_zero_absent {
            self.write_absent(w, field)?;
            return Ok(false);
        }
        self.write_name(w, field.name, 0)?;
        Ok(true)
    }

    /// The text that comes has something in it.
    fn begin_text<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        let Some(field) = self.pending.take() else { return Ok(()) };
        self.write_name(w, field.name, 0)?;
        w.write_all(b"\"")
    }

    fn is_time(&self) -> bool {
        self.pending.is_some_and(|it| matches!(it.of, Of::Time))
    }

    fn write_time<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        let Some(field) = self.pending.take() else { return Ok(()) };
        if self.time.starts_with(ZERO_TIME) {
            if field.is_zero_absent {
                return self.write_absent(w, field);
            }
            self.write_name(w, field.name, 0)?;
            return w.write_all(b"null");
        }
        self.write_name(w, field.name, 0)?;
        w.write_all(b"\"")?;
        w.write_all(self.time.as_bytes())?;
        w.write_all(b"\"")
    }

    /// `[` or `{`, unless it is held back until there is something in it.
    fn open<W: ?Sized + Write>(
        &mut self,
        w: &mut W,
        what: What,
        held: Option<&'static Field>,
        bracket: &[u8],
    ) -> Result<()> {
        self.open.push(Open { what, held });
        if held.is_none() { w.write_all(bracket) } else { Ok(()) }
    }

    /// There is something in what was opened last.
    fn release<W: ?Sized + Write>(&mut self, w: &mut W, bracket: &[u8]) -> Result<()> {
        match self.open.last_mut().and_then(|it| it.held.take()) {
            Some(field) => {
                self.write_name(w, field.name, 1)?;
                w.write_all(bracket)
            }
            None => Ok(()),
        }
    }

    fn close<W: ?Sized + Write>(&mut self, w: &mut W, bracket: &[u8]) -> Result<()> {
        match self.open.pop().and_then(|it| it.held) {
            Some(field) => self.write_absent(w, field),
            None => w.write_all(bracket),
        }
    }

    fn begin_struct<W: ?Sized + Write>(
        &mut self,
        w: &mut W,
        form: &'static Form,
        held: Option<&'static Field>,
    ) -> Result<()> {
        let what = match form.fields {
            // Nobody has anything to say about what is in there.
            [] => What::Many(Of::Any),
            _ => What::Struct { form, next: 0, is_first: true },
        };
        self.open(w, what, held, b"{")
    }
}

/// So that it means nothing in a page or a script, as Go's encoder does unless told otherwise.
fn write_escaped<W: ?Sized + Write>(w: &mut W, text: &str) -> Result<()> {
    let mut rest = text;
    while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        let (before, after) = rest.split_at(at);
        w.write_all(before.as_bytes())?;
        let mut letters = after.chars();
        if let Some(letter) = letters.next() {
            write!(w, "\\u{:04x}", u32::from(letter))?;
        }
        rest = letters.as_str();
    }
    w.write_all(rest.as_bytes())
}

/// Whole numbers of each size.
macro_rules! integers {
    ($($name:ident: $number:ty,)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, w: &mut W, value: $number) -> Result<()> {
            if self.begin_scalar(w, value == 0)? { CompactFormatter.$name(w, value) } else { Ok(()) }
        })*
    };
}

impl Formatter for GoWriter {
    integers! {
        write_i8: i8, write_i16: i16, write_i32: i32, write_i64: i64, write_i128: i128,
        write_u8: u8, write_u16: u16, write_u32: u32, write_u64: u64, write_u128: u128,
    }

    fn write_f32<W: ?Sized + Write>(&mut self, w: &mut W, value: f32) -> Result<()> {
        self.write_f64(w, value.into())
    }

    /// One that is whole has no point (`minimum: 7` of a schema, not `7.0`).
    fn write_f64<W: ?Sized + Write>(&mut self, w: &mut W, value: f64) -> Result<()> {
        if !self.begin_scalar(w, value == 0.0)? {
            return Ok(());
        }
        let size = value.abs();
        if size == 0.0 || (1e-6..1e21).contains(&size) {
            return write!(w, "{value}");
        }
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write!(w, "{digits}e+{exponent}")
            }
            _ => w.write_all(text.as_bytes()),
        }
    }

    fn write_bool<W: ?Sized + Write>(&mut self, w: &mut W, value: bool) -> Result<()> {
        if self.begin_scalar(w, !value)? { CompactFormatter.write_bool(w, value) } else { Ok(()) }
    }

    fn write_null<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        match self.pending.take() {
            Some(field) => self.write_absent(w, field),
            None => w.write_all(b"null"),
        }
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, w: &mut W, text: &str) -> Result<()> {
        if self.begin_scalar(w, false)? { w.write_all(text.as_bytes()) } else { Ok(()) }
    }

    fn begin_string<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        self.time.clear();
        self.is_raw_text = self.is_in_raw();
        if self.is_name || self.pending.is_some() { Ok(()) } else { w.write_all(b"\"") }
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, w: &mut W, text: &str) -> Result<()> {
        if self.is_name {
            return self.select(w, text);
        }
        if self.is_time() {
            self.time.push_str(text);
            return Ok(());
        }
        self.begin_text(w)?;
        if self.is_raw_text { write_escaped(w, text) } else { w.write_all(text.as_bytes()) }
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, w: &mut W, it: CharEscape) -> Result<()> {
        self.begin_text(w)?;
        CompactFormatter.write_char_escape(w, it)
    }

    fn end_string<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        if self.is_name {
            return Ok(());
        }
        if self.is_time() {
            return self.write_time(w);
        }
        if self.pending.is_none() {
            return w.write_all(b"\"");
        }
        if self.begin_scalar(w, true)? { w.write_all(b"\"\"") } else { Ok(()) }
    }

    fn begin_array<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        match self.pending.take() {
            Some(field) if field.count == Count::List => {
                self.open(w, What::Many(field.of), Some(field), b"[")
            }
            Some(field) => {
                self.write_name(w, field.name, 0)?;
                self.open(w, What::Many(field.of), None, b"[")
            }
            None => self.open(w, What::Many(Of::Any), None, b"["),
        }
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> Result<()> {
        if first { self.release(w, b"[") } else { w.write_all(b",") }
    }

    fn end_array<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        self.close(w, b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        let Some(field) = self.pending.take() else {
            return match self.of() {
                Of::Struct(form) => self.begin_struct(w, form, None),
                _ => self.open(w, What::Many(Of::Any), None, b"{"),
            };
        };
        match (field.count, field.of) {
            (Count::Map, of) => self.open(w, What::Many(of), Some(field), b"{"),
            (Count::One, Of::Struct(form)) if field.is_zero_absent => {
                self.begin_struct(w, form, Some(field))
            }
            (_, of) => {
                self.write_name(w, field.name, 0)?;
                match of {
                    Of::Struct(form) => self.begin_struct(w, form, None),
                    _ => self.open(w, What::Many(Of::Any), None, b"{"),
                }
            }
        }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> Result<()> {
        if first {
            self.release(w, b"{")?;
        }
        if self.is_in_struct() {
            self.is_name = true;
            return Ok(());
        }
        if first { Ok(()) } else { w.write_all(b",") }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> Result<()> {
        self.is_name = false;
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        if self.is_in_struct() { Ok(()) } else { w.write_all(b":") }
    }

    fn end_object<W: ?Sized + Write>(&mut self, w: &mut W) -> Result<()> {
        if let Some(&Open { what: What::Struct { form, next, .. }, held: None }) = self.open.last()
        {
            for field in &form.fields[next..] {
                self.write_absent(w, field)?;
            }
        }
        self.close(w, b"}")
    }
}
