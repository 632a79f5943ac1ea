//! Tokens to a tree, by recursive descent over CEL's grammar. It stops at the first syntax error;
//! errors of literals, names and macros are collected. Chains of `&&` and `||` become balanced trees,
//! so that only nesting makes a tree deep, and nesting is bounded.

use std::sync::Arc;

use super::ast::{Entry, Expr, ExprId, Field, Kind, Literal};
use super::lexer::{Spanned, Token, lex};
use super::literal;
use super::macros::{self, Macro};
use super::source::{Issues, Position, Report, Source};

/// As deep as expressions may nest; chains of operators and selections count.
const DEPTH_MAX: usize = 250;
const CODE_POINTS_MAX: usize = 100_000;
/// Operators inside operators, over all levels of nesting: each is a frame on the stack here, and a
/// node above others in the tree.
const OPERATORS_MAX: usize = 1000;
/// Macros that repeat their target could make a tree of any size.
pub(super) const NODES_MAX: usize = 500_000;

const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];
/// What looks like a name and is a literal or an operator.
const KEYWORDS: &[&str] = &["false", "in", "null", "true"];

/// Words of the language, which are no names.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || KEYWORDS.contains(&word)
}

/// What ANTLR says that it expected where an operand is missing.
const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                       NUM_UINT, STRING, BYTES, IDENTIFIER}";

const AND: u8 = 1;

/// The function of a binary operator, and how tight it binds.
fn operator(token: Token) -> Option<(&'static str, u8)> {
    Some(match token {
        Token::Mark("||") => ("_||_", 0),
        Token::Mark("&&") => ("_&&_", AND),
        Token::Mark("<") => ("_<_", 2),
        Token::Mark("<=") => ("_<=_", 2),
        Token::Mark(">=") => ("_>=_", 2),
        Token::Mark(">") => ("_>_", 2),
        Token::Mark("==") => ("_==_", 2),
        Token::Mark("!=") => ("_!=_", 2),
        Token::In => ("@in", 2),
        Token::Mark("+") => ("_+_", 3),
        Token::Mark("-") => ("_-_", 3),
        Token::Mark("*") => ("_*_", 4),
        Token::Mark("/") => ("_/_", 4),
        Token::Mark("%") => ("_%_", 4),
        _ => return None,
    })
}

/// A parsed expression: the tree, and the position of each of its nodes.
#[derive(Debug, Clone)]
pub(crate) struct Parsed {
    pub(crate) source: Source,
    pub(crate) root: Expr,
    pub(crate) positions: Vec<Position>,
}

pub(crate) fn parse(text: &str, macros: &[Macro]) -> Result<Parsed, Issues> {
    let source = Source::new(text);
    let mut report = Report::default();
    let n = text.chars().count();
    if n > CODE_POINTS_MAX {
        let what =
            format!("expression code point size exceeds limit: size: {n}, limit {CODE_POINTS_MAX}");
        report.add(source.position(0), what);
        return Err(report.into_issues(source));
    }
    let tokens = match lex(text) {
        Ok(tokens) => tokens,
        Err((at, what)) => {
            report.add(source.position(at), format!("Syntax error: {what}"));
            return Err(report.into_issues(source));
        }
    };
    let mut parser = Parser {
        source: &source,
        text,
        tokens,
        at: 0,
        depth: 0,
        n_operators: 0,
        macros,
        build: Builder::default(),
        report,
    };
    let root = parser.start();
    let Parser { build, mut report, .. } = parser;
    match root {
        Ok(root) if report.is_empty() => {
            Ok(Parsed { source: source.clone(), root, positions: build.positions })
        }
        Ok(_) => Err(report.into_issues(source)),
        Err(Stop { at, what }) => {
            report.add(source.position(at), what);
            Err(report.into_issues(source))
        }
    }
}

/// Makes nodes and remembers where they are from.
#[derive(Debug, Default)]
pub(super) struct Builder {
    positions: Vec<Position>,
}

impl Builder {
    pub(super) fn id(&mut self, position: Position) -> ExprId {
        self.positions.push(position);
        self.positions.len() - 1
    }

    pub(super) fn n_nodes(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn position(&self, id: ExprId) -> Position {
        self.positions[id]
    }

    pub(super) fn node(&mut self, position: Position, kind: Kind) -> Expr {
        Expr { id: self.id(position), kind }
    }

    pub(super) fn call(&mut self, position: Position, name: &str, args: Vec<Expr>) -> Expr {
        let kind = Kind::Call { function: name.into(), target: None, args };
        self.node(position, kind)
    }
}

/// A syntax error, after which nothing is understood.
struct Stop {
    at: usize,
    what: String,
}

struct Parser<'t> {
    source: &'t Source,
    text: &'t str,
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
    n_operators: usize,
    macros: &'t [Macro],
    build: Builder,
    report: Report,
}

type Parse<T> = Result<T, Stop>;

impl<'t> Parser<'t> {
    fn peek(&self) -> Spanned {
        self.tokens[self.at]
    }

    fn peek_second(&self) -> Token {
        self.tokens.get(self.at + 1).map_or(Token::End, |it| it.token)
    }

    fn next(&mut self) -> Spanned {
        let token = self.tokens[self.at];
        if token.token != Token::End {
            self.at += 1;
        }
        token
    }

    fn text_of(&self, token: Spanned) -> &'t str {
        if token.token == Token::End { "<EOF>" } else { &self.text[token.start..token.end] }
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.peek().token, Token::Mark(it) if it == mark)
    }

    fn take(&mut self, mark: &str) -> Option<Spanned> {
        if self.is(mark) { Some(self.next()) } else { None }
    }

    fn expect(&mut self, mark: &str) -> Parse<Spanned> {
        let token = self.peek();
        self.take(mark).ok_or_else(|| {
            let found = self.text_of(token);
            self.stop(token, format!("Syntax error: missing '{mark}' at '{found}'"))
        })
    }

    fn stop(&self, token: Spanned, what: String) -> Stop {
        Stop { at: token.start, what }
    }

    fn position(&self, token: Spanned) -> Position {
        self.source.position(token.start)
    }

    fn too_deep(&self) -> Stop {
        let what = format!("expression recursion limit exceeded: {DEPTH_MAX}");
        self.stop(self.peek(), what)
    }

    fn start(&mut self) -> Parse<Expr> {
        let root = self.expr()?;
        let token = self.peek();
        if token.token == Token::End {
            return Ok(root);
        }
        let how = if self.peek_second() == Token::End { "extraneous" } else { "mismatched" };
        let found = self.text_of(token);
        Err(self.stop(token, format!("Syntax error: {how} input '{found}' expecting <EOF>")))
    }

    fn expr(&mut self) -> Parse<Expr> {
        self.grow()?;
        let condition = self.binary(0)?;
        if let Some(op) = self.take("?") {
            let position = self.position(op);
            let then = self.binary(0)?;
            self.expect(":")?;
            let otherwise = self.expr()?;
            self.depth -= 1;
            return Ok(self.build.call(position, "_?_:_", vec![condition, then, otherwise]));
        }
        self.depth -= 1;
        Ok(condition)
    }

    /// Operators that bind at least as tight as `level`, from left to right. One function for all
    /// levels keeps the stack flat.
    fn binary(&mut self, level: u8) -> Parse<Expr> {
        let depth = self.depth;
        let mut left = self.unary()?;
        while let Some((name, tightness)) = operator(self.peek().token)
            && tightness >= level
        {
            let op = self.next();
            let mut positions = vec![self.position(op)];
            let right = self.operand_of(tightness)?;
            if tightness > AND {
                left = self.build.call(positions[0], name, vec![left, right]);
                self.grow()?;
                continue;
            }
            let mut terms = vec![left, right];
            while operator(self.peek().token) == Some((name, tightness)) {
                let op = self.next();
                positions.push(self.position(op));
                terms.push(self.operand_of(tightness)?);
            }
            left = self.balance(name, terms, &positions);
        }
        self.depth = depth;
        Ok(left)
    }

    /// The right side of an operator.
    fn operand_of(&mut self, tightness: u8) -> Parse<Expr> {
        self.n_operators += 1;
        if self.n_operators > OPERATORS_MAX {
            return Err(self.too_deep());
        }
        let operand = self.binary(tightness + 1)?;
        self.n_operators -= 1;
        Ok(operand)
    }

    fn balance(&mut self, name: &str, mut terms: Vec<Expr>, positions: &[Position]) -> Expr {
        if terms.len() > 1 {
            let middle = terms.len().div_ceil(2);
            let right = terms.split_off(middle);
            let left = self.balance(name, terms, &positions[..middle - 1]);
            let right = self.balance(name, right, &positions[middle..]);
            return self.build.call(positions[middle - 1], name, vec![left, right]);
        }
        terms.pop().unwrap_or_else(|| unreachable!("a chain has at least one term"))
    }

    /// One more level of nesting: of an expression, or of a chain, which is deep on its left side.
    fn grow(&mut self) -> Parse<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    fn unary(&mut self) -> Parse<Expr> {
        for (mark, name) in [("!", "!_"), ("-", "-_")] {
            if !self.is(mark) {
                continue;
            }
            let op = self.peek();
            let position = self.position(op);
            let mut n = 0;
            while self.is(mark) && !self.is_signed_number() {
                self.next();
                n += 1;
            }
            let operand = self.member()?;
            let is_changed = n % 2 == 1;
            return Ok(if is_changed {
                self.build.call(position, name, vec![operand])
            } else {
                operand
            });
        }
        self.member()
    }

    fn is_signed_number(&self) -> bool {
        self.is("-") && matches!(self.peek_second(), Token::Int | Token::Double)
    }

    fn member(&mut self) -> Parse<Expr> {
        let depth = self.depth;
        let mut operand = self.primary()?;
        loop {
            if let Some(dot) = self.take(".") {
                operand = self.selection(operand, dot)?;
            } else if let Some(open) = self.take("[") {
                let is_optional = self.take("?").is_some();
                let index = self.expr()?;
                self.expect("]")?;
                let name = if is_optional { "_[?_]" } else { "_[_]" };
                let position = self.position(open);
                operand = self.build.call(position, name, vec![operand, index]);
            } else {
                self.depth = depth;
                return Ok(operand);
            }
            self.grow()?;
        }
    }

    fn selection(&mut self, operand: Expr, dot: Spanned) -> Parse<Expr> {
        let position = self.position(dot);
        let is_optional = self.take("?").is_some();
        let token = self.next();
        let name = match token.token {
            Token::Ident => self.text_of(token),
            Token::EscapedIdent => self.text_of(token).trim_matches('`'),
            _ => {
                let found = self.text_of(token);
                let what = match found {
                    "<EOF>" => "Syntax error: no viable alternative at input '.'".to_owned(),
                    _ => format!("Syntax error: mismatched input '{found}' expecting IDENTIFIER"),
                };
                return Err(self.stop(token, what));
            }
        };
        if is_optional {
            let field = Kind::Literal(Literal::String(name.into()));
            let field = self.build.node(self.source.position(token.start), field);
            return Ok(self.build.call(position, "_?._", vec![operand, field]));
        }
        if token.token == Token::Ident
            && let Some(open) = self.take("(")
        {
            let args = self.arguments()?;
            return Ok(self.call(open, name, Some(operand), args));
        }
        let kind = Kind::Select { operand: operand.into(), field: name.into(), test: false };
        Ok(self.build.node(position, kind))
    }

    fn arguments(&mut self) -> Parse<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.take(",").is_none() {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    /// A call, or what the macro of that name makes of it.
    fn call(&mut self, open: Spanned, name: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        let position = self.position(open);
        let found = self.macros.iter().find(|it| it.matches(name, args.len(), target.as_ref()));
        let Some(found) = found else {
            let kind = Kind::Call { function: name.into(), target: target.map(Box::new), args };
            return self.build.node(position, kind);
        };
        match macros::expand(*found, &mut self.build, position, target, args) {
            Ok(expr) => expr,
            Err((position, what)) => self.wrong(position, what),
        }
    }

    /// Notes an error and goes on with a placeholder.
    fn wrong(&mut self, position: Position, what: impl Into<String>) -> Expr {
        self.report.add(position, what);
        self.build.node(position, Kind::Literal(Literal::Null))
    }

    fn primary(&mut self) -> Parse<Expr> {
        let token = self.peek();
        match token.token {
            Token::Ident => self.name(false),
            Token::Mark(".") if self.peek_second() == Token::Ident => {
                self.next();
                self.name(true)
            }
            Token::Mark("(") => {
                self.next();
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Mark("[") => self.list(),
            Token::Mark("{") => self.map(),
            Token::Mark("-") if self.is_signed_number() => {
                self.next();
                Ok(self.literal(token, true))
            }
            Token::Int
            | Token::Uint
            | Token::Double
            | Token::String
            | Token::Bytes
            | Token::True
            | Token::False
            | Token::Null => Ok(self.literal(token, false)),
            _ => {
                let found = self.text_of(token);
                let what = format!("Syntax error: mismatched input '{found}' expecting {OPERAND}");
                Err(self.stop(token, what))
            }
        }
    }

    fn literal(&mut self, start: Spanned, is_negative: bool) -> Expr {
        let token = self.next();
        let text = self.text_of(token);
        let invalid = |what: &str| format!("invalid {what} literal");
        let value = match token.token {
            Token::Int => literal::int(text, is_negative).ok_or_else(|| invalid("int")),
            Token::Uint => literal::uint(text).ok_or_else(|| invalid("uint")),
            Token::Double => literal::double(text, is_negative).ok_or_else(|| invalid("double")),
            Token::String | Token::Bytes => literal::quoted(text),
            Token::True => Ok(Literal::Bool(true)),
            Token::False => Ok(Literal::Bool(false)),
            _ => Ok(Literal::Null),
        };
        let position = self.position(start);
        match value {
            Ok(value) => self.build.node(position, Kind::Literal(value)),
            Err(what) => self.wrong(position, what),
        }
    }

    /// An identifier, a call or a message literal.
    fn name(&mut self, is_absolute: bool) -> Parse<Expr> {
        let token = self.next();
        let dot = if is_absolute { "." } else { "" };
        let first = self.text_of(token);
        let mut name = format!("{dot}{first}");
        if let Some(end) = self.message_start() {
            while self.at < end {
                let part = self.next();
                name.push_str(self.text_of(part));
            }
            return self.message(name.into());
        }
        let position = self.position(token);
        if RESERVED.contains(&first) {
            return Ok(self.wrong(position, format!("reserved identifier: {first}")));
        }
        if let Some(open) = self.take("(") {
            let args = self.arguments()?;
            return Ok(self.call(open, &name, None, args));
        }
        Ok(self.build.node(position, Kind::Ident(name.into())))
    }

    /// If a `{` follows after more parts of the name: where it is.
    fn message_start(&self) -> Option<usize> {
        let mut at = self.at;
        while self.tokens[at].token == Token::Mark(".")
            && self.tokens.get(at + 1).is_some_and(|it| it.token == Token::Ident)
        {
            at += 2;
        }
        (self.tokens[at].token == Token::Mark("{")).then_some(at)
    }

    fn message(&mut self, name: Arc<str>) -> Parse<Expr> {
        let open = self.expect("{")?;
        let position = self.position(open);
        let id = self.build.id(position);
        let mut fields = Vec::new();
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let token = self.next();
            if !matches!(token.token, Token::Ident | Token::EscapedIdent) {
                let found = self.text_of(token);
                let what = format!("Syntax error: mismatched input '{found}' expecting IDENTIFIER");
                return Err(self.stop(token, what));
            }
            let field = self.text_of(token).trim_matches('`').into();
            let colon = self.expect(":")?;
            let id = self.build.id(self.source.position(colon.start));
            let value = self.expr()?;
            fields.push(Field { id, name: field, value, optional });
            self.separator("}")?;
        }
        Ok(Expr { id, kind: Kind::Struct { name, fields } })
    }

    /// A comma, or the mark that ends the literal (which is left).
    fn separator(&mut self, end: &str) -> Parse<()> {
        if self.is(end) {
            return Ok(());
        }
        self.expect(",").map(|_| ())
    }

    fn list(&mut self) -> Parse<Expr> {
        let open = self.next();
        let id = self.build.id(self.source.position(open.start));
        let mut elements = Vec::new();
        let mut optional = Vec::new();
        while self.take("]").is_none() {
            if self.take("?").is_some() {
                optional.push(elements.len());
            }
            elements.push(self.expr()?);
            self.separator("]")?;
        }
        Ok(Expr { id, kind: Kind::List { elements, optional } })
    }

    fn map(&mut self) -> Parse<Expr> {
        let open = self.next();
        let id = self.build.id(self.source.position(open.start));
        let mut entries = Vec::new();
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let key = self.expr()?;
            self.expect(":")?;
            let value = self.expr()?;
            entries.push(Entry { key, value, optional });
            self.separator("}")?;
        }
        Ok(Expr { id, kind: Kind::Map(entries) })
    }
}
