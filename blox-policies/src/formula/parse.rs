//! Parser of formulas. It checks units, so that an error names the place in the text.

use super::column::{CLASSES, Column, TextColumn, Unit};
use super::expr::{ATTRIBUTES, Choice, Comparison, Condition, Expr, Function, Operator, Suffix};
use blox_core::Name;
use blox_core::suggest::one_of;

/// A text that is no formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("character {at}: found {found}, expected {expected}")]
pub struct FormulaError {
    /// The place in the text: the number of the character, from 1.
    pub at: usize,
    /// The text at this place, and what it is.
    pub found: String,
    /// The form that the formula needs at this place.
    pub expected: String,
}

type Parsed<T> = Result<T, FormulaError>;

/// Largest number of nested parts.
const DEPTH: u32 = 64;

/// Largest number of words and signs: a sum nests once for each term.
const LENGTH: usize = 2000;

/// Parses keys with commas between them.
pub(super) fn keys(text: &str) -> Parsed<Vec<Expr>> {
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        next: 0,
        depth: 0,
    };
    let mut keys = vec![parser.key()?];
    while parser.takes(",") {
        keys.push(parser.key()?);
    }
    match parser.token().kind {
        Kind::End => Ok(keys),
        _ => Err(parser.unexpected("an operator, a comma before another key, or the end")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Number(f64),
    Word,
    /// A text in quotes.
    Text,
    Symbol,
    End,
}

/// A token, and the bytes of the text that it takes.
#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    kind: Kind,
    text: &'t str,
    start: usize,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

const SYMBOLS: [&str; 14] = [
    "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "(", ")", ",", "=",
];

fn tokens(text: &str) -> Parsed<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        let rest = &text[start..];
        if first.is_whitespace() {
            start += first.len_utf8();
            continue;
        }
        let (kind, length) = if first.is_ascii_digit() || first == '.' {
            let length = digits(rest);
            let number = rest[..length].parse().ok().filter(|n: &f64| n.is_finite());
            let number = number.ok_or_else(|| {
                error(text, start, &rest[..length], "a finite number such as 0.5")
            })?;
            (Kind::Number(number), length)
        } else if first.is_ascii_alphabetic() || first == '_' {
            // A hyphen is always a minus sign: `attributes.cost-1` is a difference.
            let ends = |c: char| !(c.is_ascii_alphanumeric() || "_.".contains(c));
            (Kind::Word, rest.find(ends).unwrap_or(rest.len()))
        } else if first == '\'' {
            let Some(length) = rest[1..].find('\'') else {
                return Err(error(text, start, rest, "a second quote behind the text"));
            };
            (Kind::Text, length + 2)
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Kind::Symbol, symbol.len())
        } else {
            let expected = "a number, a column, an operator or a parenthesis";
            return Err(error(text, start, &rest[..first.len_utf8()], expected));
        };
        if tokens.len() == LENGTH {
            let expected = format!("a formula of at most {LENGTH} words and signs");
            return Err(error(text, start, &rest[..length], &expected));
        }
        tokens.push(Token {
            kind,
            text: &rest[..length],
            start,
        });
        start += length;
    }
    tokens.push(Token {
        kind: Kind::End,
        text: "",
        start,
    });
    Ok(tokens)
}

/// Returns the length of the number at the start of a text.
fn digits(text: &str) -> usize {
    let bytes = text.as_bytes();
    let run = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut end = run(0);
    if bytes.get(end) == Some(&b'.') {
        end = run(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = run(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}

fn error(text: &str, start: usize, found: &str, expected: impl Into<String>) -> FormulaError {
    let shown: String = found.chars().take(40).collect();
    FormulaError {
        at: text[..start].chars().count() + 1,
        found: match shown.is_empty() {
            true => "the end".to_owned(),
            false => format!("`{shown}`"),
        },
        expected: expected.into(),
    }
}

/// A parsed part, and what it is.
enum Part {
    Number(Expr, Unit),
    Condition(Condition),
    Column(TextColumn),
    Text(Name),
}

/// A part with its place in the text.
struct Placed {
    part: Part,
    start: usize,
    end: usize,
}

/// A number with its unit and place.
struct Number {
    expr: Expr,
    unit: Unit,
    start: usize,
    end: usize,
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
    next: usize,
    depth: u32,
}

impl<'t> Parser<'t> {
    fn token(&self) -> Token<'t> {
        self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    /// Returns whether the next token is this word or symbol, and takes it.
    fn takes(&mut self, text: &str) -> bool {
        let token = self.token();
        let is_it = matches!(token.kind, Kind::Word | Kind::Symbol) && token.text == text;
        self.next += usize::from(is_it);
        is_it
    }

    fn needs(&mut self, symbol: &str) -> Parsed<()> {
        match self.takes(symbol) {
            true => Ok(()),
            false => Err(self.unexpected(format!("`{symbol}`"))),
        }
    }

    fn unexpected(&self, expected: impl Into<String>) -> FormulaError {
        let token = self.token();
        error(self.text, token.start, token.text, expected)
    }

    /// Returns an error about a part that is something else than expected.
    fn misfit(&self, part: &Placed, expected: impl Into<String>) -> FormulaError {
        let text = &self.text[part.start..part.end];
        let mut error = error(self.text, part.start, text, expected);
        error.found += match part.part {
            Part::Number(_, Unit::NONE) => ", a number without unit",
            Part::Number(..) => ", a number",
            Part::Condition(_) => ", a condition",
            Part::Column(_) | Part::Text(_) => ", a text",
        };
        error
    }

    /// Parses a part within another.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH {
            let expected = format!("at most {DEPTH} parts within each other");
            return Err(self.unexpected(expected));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn key(&mut self) -> Parsed<Expr> {
        let part = self.either()?;
        Ok(self.number(part)?.expr)
    }

    fn number(&self, placed: Placed) -> Parsed<Number> {
        let (start, end) = (placed.start, placed.end);
        match placed.part {
            Part::Number(expr, unit) => Ok(Number {
                expr,
                unit,
                start,
                end,
            }),
            Part::Condition(_) => {
                Err(self.misfit(&placed, "a number; `where(CONDITION, 0, 1)` makes one"))
            }
            Part::Column(_) | Part::Text(_) => {
                Err(self.misfit(&placed, "a number, or a comparison of texts by == or !="))
            }
        }
    }

    fn condition(&self, placed: Placed) -> Parsed<Condition> {
        match placed.part {
            Part::Condition(condition) => Ok(condition),
            _ => Err(self.misfit(&placed, "a condition such as `attained < 8h`")),
        }
    }

    /// Checks that a number has the unit of another one before it.
    fn alike(&self, before: &Number, number: &Number) -> Parsed<()> {
        if before.unit == number.unit {
            return Ok(());
        }
        let text = &self.text[number.start..number.end];
        let unit = match before.unit {
            Unit::NONE => "without unit".to_owned(),
            unit => format!("in {unit}"),
        };
        let before = &self.text[before.start..before.end];
        let expected = format!("a value {unit}, as `{before}` before it");
        let mut error = error(self.text, number.start, text, expected);
        error.found = format!("{}, which has {}", error.found, named(number.unit));
        Err(error)
    }

    /// The end of the last token taken.
    fn end(&self) -> usize {
        self.tokens[self.next.saturating_sub(1)].end()
    }

    fn placed(&self, part: Part, start: usize) -> Placed {
        let end = self.end();
        Placed { part, start, end }
    }

    fn either(&mut self) -> Parsed<Placed> {
        self.joined("or", Self::both, Condition::Either)
    }

    fn both(&mut self) -> Parsed<Placed> {
        self.joined("and", Self::not, Condition::Both)
    }

    /// Parses conditions with a word between them, or a single part.
    fn joined(
        &mut self,
        word: &str,
        part: impl Fn(&mut Self) -> Parsed<Placed>,
        join: impl Fn(Box<[Condition; 2]>) -> Condition,
    ) -> Parsed<Placed> {
        let mut left = part(self)?;
        let start = left.start;
        while self.takes(word) {
            let first = self.condition(left)?;
            let right = part(self)?;
            let second = self.condition(right)?;
            left = self.placed(Part::Condition(join(Box::new([first, second]))), start);
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed<Placed> {
        let start = self.token().start;
        if !self.takes("not") {
            return self.comparison();
        }
        let inner = self.nested(Self::not)?;
        let inner = Box::new(self.condition(inner)?);
        Ok(self.placed(Part::Condition(Condition::Not(inner)), start))
    }

    fn comparison(&mut self) -> Parsed<Placed> {
        let left = self.sum()?;
        let token = self.token();
        let comparison = Comparison::of(token.text).filter(|_| token.kind == Kind::Symbol);
        let Some(comparison) = comparison else {
            return match token.text {
                "=" => Err(self.unexpected("`==`")),
                _ => Ok(left),
            };
        };
        self.next += 1;
        let right = self.sum()?;
        let start = left.start;
        let equal = comparison == Comparison::Equal;
        if let (Part::Column(TextColumn::Class), Part::Text(class)) = (&left.part, &right.part)
            && !CLASSES.contains(&&**class)
        {
            return Err(self.misfit(&right, one_of(class, CLASSES)));
        }
        let condition = match (left.part, right.part) {
            (Part::Column(column), Part::Text(text))
                if equal || comparison == Comparison::Other =>
            {
                Condition::Text(column, equal, text)
            }
            (Part::Column(_), part) => {
                let right = Placed { part, ..right };
                return Err(self.misfit(&right, "a text in single quotes behind == or !="));
            }
            (left_part, right_part) => {
                let left = Placed {
                    part: left_part,
                    ..left
                };
                let right = Placed {
                    part: right_part,
                    ..right
                };
                let (left, right) = (self.number(left)?, self.number(right)?);
                self.alike(&left, &right)?;
                Condition::Compare(comparison, Box::new([left.expr, right.expr]))
            }
        };
        Ok(self.placed(Part::Condition(condition), start))
    }

    fn sum(&mut self) -> Parsed<Placed> {
        let mut left = self.product()?;
        while let Some(operator) = self.operator([Operator::Add, Operator::Subtract]) {
            let first = self.number(left)?;
            let second = self.product()?;
            let second = self.number(second)?;
            self.alike(&first, &second)?;
            let sides = Box::new([first.expr, second.expr]);
            let sum = Part::Number(Expr::Binary(operator, sides), first.unit);
            left = self.placed(sum, first.start);
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed<Placed> {
        let mut left = self.signed()?;
        while let Some(operator) = self.operator([Operator::Multiply, Operator::Divide]) {
            let first = self.number(left)?;
            let second = self.signed()?;
            let second = self.number(second)?;
            let sign = if operator == Operator::Divide { -1 } else { 1 };
            let unit = first.unit.times(second.unit, sign).ok_or_else(|| {
                let text = &self.text[first.start..second.end];
                error(
                    self.text,
                    first.start,
                    text,
                    "at most the ninth power of a unit",
                )
            })?;
            let sides = Box::new([first.expr, second.expr]);
            let product = Part::Number(Expr::Binary(operator, sides), unit);
            left = self.placed(product, first.start);
        }
        Ok(left)
    }

    fn operator(&mut self, of: [Operator; 2]) -> Option<Operator> {
        let token = self.token();
        let symbol = Operator::of(token.text).filter(|_| token.kind == Kind::Symbol);
        let found = symbol.filter(|operator| of.contains(operator))?;
        self.next += 1;
        Some(found)
    }

    fn signed(&mut self) -> Parsed<Placed> {
        let start = self.token().start;
        if !self.takes("-") {
            return self.atom();
        }
        let inner = self.nested(Self::signed)?;
        let Number { expr, unit, .. } = self.number(inner)?;
        let negative = Expr::Negative(Box::new(expr));
        Ok(self.placed(Part::Number(negative, unit), start))
    }

    fn atom(&mut self) -> Parsed<Placed> {
        let token = self.token();
        let part = match token.kind {
            Kind::Number(number) => {
                self.next += 1;
                let suffix = self.suffix()?;
                let unit = suffix.map_or(Unit::NONE, Suffix::unit);
                Part::Number(Expr::Number(number, suffix), unit)
            }
            Kind::Text => {
                self.next += 1;
                Part::Text(token.text[1..token.text.len() - 1].into())
            }
            Kind::Word => self.word(token)?,
            Kind::Symbol if self.takes("(") => {
                let inner = self.nested(Self::either)?;
                self.needs(")")?;
                inner.part
            }
            Kind::Symbol | Kind::End => {
                return Err(self.unexpected("a number, a column or a function"));
            }
        };
        Ok(self.placed(part, token.start))
    }

    /// Takes a unit behind a number.
    fn suffix(&mut self) -> Parsed<Option<Suffix>> {
        let token = self.token();
        if token.kind != Kind::Word || ["and", "or", "not"].contains(&token.text) {
            return Ok(None);
        }
        let alias = match token.text {
            "m" => "min",
            "gpu" => "gpus",
            text => text,
        };
        let Some(suffix) = Suffix::of(alias) else {
            let units = Suffix::ALL.iter().map(|suffix| suffix.text());
            let expected = format!("an operator, or a unit: {}", one_of(token.text, units));
            return Err(self.unexpected(expected));
        };
        self.next += 1;
        Ok(Some(suffix))
    }

    /// Parses a column or a call of a function.
    fn word(&mut self, token: Token<'t>) -> Parsed<Part> {
        self.next += 1;
        if let Some(name) = token.text.strip_prefix(ATTRIBUTES) {
            if name.is_empty() {
                let expected = "the name of an attribute, such as `attributes.stages`";
                return Err(error(self.text, token.start, token.text, expected));
            }
            return Ok(Part::Number(Expr::Attribute(name.into()), Unit::NONE));
        }
        if let Some(column) = Column::of(token.text) {
            return Ok(Part::Number(Expr::Column(column), column.unit()));
        }
        if let Some(column) = TextColumn::of(token.text) {
            return Ok(Part::Column(column));
        }
        if token.text == "where" {
            return self.choice();
        }
        if let Some(function) = Function::of(token.text) {
            return self.call(function, token);
        }
        let numbers = Column::ALL.iter().map(|column| column.text());
        let texts = TextColumn::ALL.iter().map(|column| column.text());
        let functions = Function::ALL.iter().map(|function| function.text());
        let known = numbers.chain(texts).chain(["where"]).chain(functions);
        Err(error(
            self.text,
            token.start,
            token.text,
            one_of(token.text, known),
        ))
    }

    fn choice(&mut self) -> Parsed<Part> {
        self.needs("(")?;
        let condition = self.nested(Self::either)?;
        let condition = self.condition(condition)?;
        self.needs(",")?;
        let [yes, no] = [self.argument()?, {
            self.needs(",")?;
            self.argument()?
        }];
        self.alike(&yes, &no)?;
        self.needs(")")?;
        let unit = yes.unit;
        let values = [yes.expr, no.expr];
        let choice = Choice { condition, values };
        Ok(Part::Number(Expr::Where(Box::new(choice)), unit))
    }

    fn argument(&mut self) -> Parsed<Number> {
        let part = self.nested(Self::either)?;
        self.number(part)
    }

    fn call(&mut self, function: Function, token: Token<'t>) -> Parsed<Part> {
        self.needs("(")?;
        let first = self.argument()?;
        let (unit, start, end) = (first.unit, first.start, first.end);
        let mut arguments = vec![first];
        while self.takes(",") {
            let next = self.argument()?;
            self.alike(&arguments[0], &next)?;
            arguments.push(next);
        }
        self.needs(")")?;
        let count = match function {
            Function::Min | Function::Max => 2..=usize::MAX,
            Function::Abs | Function::Log => 1..=1,
        };
        if !count.contains(&arguments.len()) {
            let text = &self.text[token.start..self.end()];
            let expected = match *count.start() {
                1 => "one value in the parentheses",
                _ => "two or more values in the parentheses",
            };
            return Err(error(self.text, token.start, text, expected));
        }
        if function == Function::Log && unit != Unit::NONE {
            let text = &self.text[start..end];
            let mut error = error(
                self.text,
                start,
                text,
                "a value without unit, such as `attained / 1s`",
            );
            error.found = format!("{}, which has {}", error.found, named(unit));
            return Err(error);
        }
        let arguments = arguments.into_iter().map(|argument| argument.expr);
        Ok(Part::Number(
            Expr::Call(function, arguments.collect()),
            unit,
        ))
    }
}

fn named(unit: Unit) -> String {
    match unit {
        Unit::NONE => "no unit".to_owned(),
        unit => format!("the unit {unit}"),
    }
}
