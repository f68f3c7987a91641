//! The parser of expressions, which also determines the form of each part's values.

use super::node::{Form, Node, Operator, TextFunction};
use crate::lexer::{Cursor, Token, is_word};
use crate::value::excerpt::excerpt;
use crate::{Error, ErrorKind, Field, KeyKind, Kind, Result, Role, Schema, Value, ValueForm};

/// The maximum length of an expression in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 2_000;
/// The maximum depth of parentheses, functions and signs in an expression.
pub const EXPRESSION_DEPTH_MAX: usize = 16;
/// The maximum number of values and functions in an expression.
pub const EXPRESSION_TERMS_MAX: usize = 100;

/// The maximum number of characters of a token.
const TOKEN_CHARS_MAX: usize = 256;

/// The names of functions, for errors.
const FUNCTIONS: &str =
    "coalesce, key, key_in, length, lower, slug, text, token, trim, upper, uuid_v4 and uuid_v7";

type Typed = (Node, Form);

/// Parses the expression of a field, over the fields of its schema.
pub(super) fn parse(schema: &Schema, field: &Field, text: &str) -> Result<Typed> {
    if text.len() > EXPRESSION_BYTES_MAX {
        let message = format!(
            "the expression {:?} has {} bytes; at most {EXPRESSION_BYTES_MAX} are allowed",
            excerpt(text),
            text.len()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let cursor = Cursor::new("expression", text, None);
    let mut parser = Parser { schema, target: &field.kind, cursor, terms: 0 };
    let parsed = parser.sum(0)?;
    match parser.cursor.rest() {
        "" => Ok(parsed),
        _ => Err(parser.unexpected("the end, or one of + - * /")),
    }
}

struct Parser<'a> {
    schema: &'a Schema,
    /// The kind of the field whose expression it is.
    target: &'a Kind,
    cursor: Cursor<'a, 'static>,
    terms: usize,
}

impl<'a> Parser<'a> {
    fn sum(&mut self, depth: usize) -> Result<Typed> {
        let mut left = self.product(depth)?;
        loop {
            let operator = match self.cursor.take("+") {
                true => Operator::Add,
                false if self.cursor.take("-") => Operator::Subtract,
                false => return Ok(left),
            };
            let right = self.product(depth)?;
            left = self.binary(operator, left, right)?;
        }
    }

    fn product(&mut self, depth: usize) -> Result<Typed> {
        let mut left = self.single(depth)?;
        loop {
            let operator = match self.cursor.take("*") {
                true => Operator::Multiply,
                false if self.cursor.take("/") => Operator::Divide,
                false => return Ok(left),
            };
            let right = self.single(depth)?;
            left = self.binary(operator, left, right)?;
        }
    }

    fn single(&mut self, depth: usize) -> Result<Typed> {
        if depth > EXPRESSION_DEPTH_MAX {
            return Err(self.cursor.error("nests too deep"));
        }
        self.terms += 1;
        if self.terms > EXPRESSION_TERMS_MAX {
            let what = format!("has more than {EXPRESSION_TERMS_MAX} values and functions");
            return Err(self.cursor.error(&what));
        }
        if self.cursor.take("-") {
            let (node, form) = self.single(depth + 1)?;
            if !form.is_number() {
                let what = format!("has `-` before {}, expected a number", form.name());
                return Err(self.cursor.error(&what));
            }
            return Ok((Node::Negate(Box::new(node)), form));
        }
        if self.cursor.take("(") {
            let inner = self.sum(depth + 1)?;
            self.close()?;
            return Ok(inner);
        }
        if self.cursor.take("@") {
            return self.context();
        }
        let rest = self.cursor.rest();
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        if rest.starts_with(['\'', '"']) {
            return match self.cursor.token()? {
                Token::Text(text) => Ok((Node::Constant(Value::Text(text)), Form::TEXT)),
                other => Err(self.cursor.expected("a value", &other)),
            };
        }
        let Some(name) = self.word() else {
            return Err(self.unexpected("a value, a field or a function"));
        };
        let constant = |value, form| Ok((Node::Constant(value), form));
        match name {
            name if self.cursor.rest().starts_with('(') => self.function(name, depth),
            "true" => constant(Value::Bool(true), Form::Of(ValueForm::Bool)),
            "false" => constant(Value::Bool(false), Form::Of(ValueForm::Bool)),
            "null" => constant(Value::Null, Form::Null),
            name => self.field(name),
        }
    }

    /// Takes the next word, if there is one.
    fn word(&mut self) -> Option<&'a str> {
        let rest = self.cursor.rest();
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        self.cursor.skip(length);
        (length > 0).then(|| &rest[..length])
    }

    fn close(&mut self) -> Result<()> {
        match self.cursor.take(")") {
            true => Ok(()),
            false => Err(self.unexpected("`)`")),
        }
    }

    /// Returns the error for the text at the cursor.
    #[cold]
    fn unexpected(&mut self, what: &str) -> Error {
        match self.cursor.rest().chars().next() {
            None => self.cursor.expected(what, &Token::End),
            Some(c) => self.cursor.error(&format!("has {c:?}, expected {what}")),
        }
    }

    /// Parses a value of the write, after its `@`.
    fn context(&mut self) -> Result<Typed> {
        let first = self.word().unwrap_or_default();
        let name = match first {
            "user" if self.cursor.take(".") => self.word().unwrap_or_default(),
            "user" => "",
            name => name,
        };
        Ok(match (first, name) {
            ("now", _) => (Node::Now, Form::Of(ValueForm::Timestamp)),
            ("today", _) => (Node::Today, Form::DATE),
            ("user", "id") => (Node::UserId, Form::Caller),
            ("user", "name") => (Node::UserName, Form::TEXT),
            _ => {
                let what = "has an unknown value after `@`, expected @now, @today, @user.id or \
                            @user.name";
                return Err(self.cursor.error(what));
            }
        })
    }

    /// Parses a number: digits, of which some may follow a point.
    fn number(&mut self) -> Result<Typed> {
        let rest = self.cursor.rest();
        let length = rest.find(|c: char| !is_word(c) && c != '.').unwrap_or(rest.len());
        let digits = &rest[..length];
        self.cursor.skip(length);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let parsed = match digits.contains('.') {
            _ if !is_number => None,
            false => digits.parse().ok().map(|value| (Value::Int(value), Form::INT)),
            true => {
                let number = digits.parse().ok().filter(|number: &f64| number.is_finite());
                number.map(|value| (Value::Float(value), Form::FLOAT))
            }
        };
        match parsed {
            Some((value, form)) => Ok((Node::Number(value, digits.into()), form)),
            None => {
                let what = format!("has `{}`, expected a number such as 7 or 2.5", excerpt(digits));
                Err(self.cursor.error(&what))
            }
        }
    }

    fn field(&mut self, name: &str) -> Result<Typed> {
        let fields = &self.schema.fields;
        let Some(position) = fields.iter().position(|field| field.name == name) else {
            let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
            let what = format!(
                "has `{}`, which is not a field of `{}`; it has {}",
                excerpt(name),
                self.schema.name,
                names.join(", ")
            );
            return Err(self.cursor.error(&what));
        };
        match form_of(&fields[position]) {
            Ok(form) => Ok((Node::Field(position), form)),
            Err(why) => Err(self.cursor.error(&format!("uses `{name}`, {why}"))),
        }
    }

    /// Parses the arguments of a function, after its name.
    fn function(&mut self, name: &str, depth: usize) -> Result<Typed> {
        self.cursor.expect("(")?;
        let mut arguments = Vec::new();
        if !self.cursor.take(")") {
            loop {
                arguments.push(self.sum(depth + 1)?);
                if !self.cursor.take(",") {
                    break;
                }
            }
            self.close()?;
        }
        let of_text = |function| move |text| Node::OfText(function, Box::new(text));
        let count = |count: &str| format!("has `{name}`, which takes {count}");
        match name {
            "lower" => self.of_text(name, arguments, of_text(TextFunction::Lower), Form::TEXT),
            "upper" => self.of_text(name, arguments, of_text(TextFunction::Upper), Form::TEXT),
            "trim" => self.of_text(name, arguments, of_text(TextFunction::Trim), Form::TEXT),
            "slug" => self.of_text(name, arguments, of_text(TextFunction::Slug), Form::TEXT),
            "length" => {
                let length = |text| Node::Length(Box::new(text));
                self.of_text(name, arguments, length, Form::INT)
            }
            "text" => match <[Typed; 1]>::try_from(arguments) {
                Ok([(node, _)]) => Ok((Node::ToText(Box::new(node)), Form::TEXT)),
                Err(_) => Err(self.cursor.error(&count("one argument"))),
            },
            "coalesce" => self.coalesce(arguments),
            "key" => {
                let is_part = |(node, form): &Typed| {
                    matches!(node, Node::Field(_))
                        && [Form::INT, Form::TEXT, Form::UUID, Form::DATE].contains(form)
                };
                if arguments.len() < 2 || !arguments.iter().all(is_part) {
                    let what = "two or more fields that are integers, texts, UUIDs or dates";
                    return Err(self.cursor.error(&count(what)));
                }
                let parts = arguments.into_iter().map(|(node, _)| node).collect();
                Ok((Node::Key(parts), Form::TEXT))
            }
            "key_in" => match (<[Typed; 1]>::try_from(arguments), self.target) {
                (Ok([(text @ Node::Field(_), Form::TEXT)]), Kind::Reference { table, .. }) => {
                    Ok((Node::KeyIn(Box::new(text), (&**table).into()), Form::Key))
                }
                (Ok(_), Kind::Reference { .. }) => Err(self.cursor.error(&count("a text field"))),
                (Ok(_), _) => {
                    let what = "has `key_in`, which only references have: it is the key of a row \
                                of their table";
                    Err(self.cursor.error(what))
                }
                (Err(_), _) => Err(self.cursor.error(&count("a text field"))),
            },
            "uuid_v4" | "uuid_v7" if !arguments.is_empty() => {
                Err(self.cursor.error(&count("no arguments")))
            }
            "uuid_v4" => Ok((Node::UuidV4, Form::UUID)),
            "uuid_v7" => Ok((Node::UuidV7, Form::UUID)),
            "token" => match &arguments[..] {
                [(Node::Number(Value::Int(chars), _), _)]
                    if (1..=TOKEN_CHARS_MAX as i64).contains(chars) =>
                {
                    Ok((Node::Token(*chars as usize), Form::TEXT))
                }
                _ => {
                    let what = format!("its number of characters, 1 to {TOKEN_CHARS_MAX}");
                    Err(self.cursor.error(&count(&what)))
                }
            },
            name => {
                let name = excerpt(name);
                let what = format!("has the unknown function `{name}`; there are {FUNCTIONS}");
                Err(self.cursor.error(&what))
            }
        }
    }

    /// Returns the call of a function of one text.
    fn of_text(
        &self,
        name: &str,
        arguments: Vec<Typed>,
        call: impl FnOnce(Node) -> Node,
        result: Form,
    ) -> Result<Typed> {
        match <[Typed; 1]>::try_from(arguments) {
            Ok([(text, Form::TEXT | Form::Null)]) => Ok((call(text), result)),
            Ok([(_, form)]) => {
                let what =
                    format!("has `{name}` of {}, expected a text; text(…) makes one", form.name());
                Err(self.cursor.error(&what))
            }
            Err(_) => Err(self.cursor.error(&format!("has `{name}`, which takes one text"))),
        }
    }

    fn coalesce(&self, arguments: Vec<Typed>) -> Result<Typed> {
        let forms = || arguments.iter().map(|(_, form)| *form).filter(|form| *form != Form::Null);
        let has = |wanted: Form| forms().any(|form| form == wanted);
        let form = match forms().next() {
            None => Form::Null,
            Some(_) if has(Form::CURRENCY) => Form::CURRENCY,
            Some(Form::INT) if has(Form::FLOAT) => Form::FLOAT,
            Some(form) => form,
        };
        let to_form = |(node, other): Typed| match other {
            other if other == form || other == Form::Null => Some(node),
            Form::INT if form == Form::FLOAT => Some(node),
            _ if form == Form::CURRENCY => node.as_currency(),
            _ => None,
        };
        let values: Option<Vec<Node>> = arguments.into_iter().map(to_form).collect();
        match values {
            Some(values) if !values.is_empty() => Ok((Node::Coalesce(values), form)),
            _ => {
                let what = "has `coalesce`, which takes one or more values of the same kind";
                Err(self.cursor.error(what))
            }
        }
    }

    /// Returns the combination of two values.
    fn binary(&self, operator: Operator, left: Typed, right: Typed) -> Result<Typed> {
        use Operator::{Add, Divide, Multiply, Subtract};
        let ((mut left, one), (mut right, other)) = (left, right);
        let form = match (one, operator, other) {
            (Form::Null, _, Form::Null) => Some(Form::Null),
            (form @ (Form::INT | Form::FLOAT), _, same) if form == same => Some(form),
            (Form::INT, _, Form::FLOAT) | (Form::FLOAT, _, Form::INT) => Some(Form::FLOAT),
            (Form::CURRENCY, Add | Subtract | Multiply, Form::CURRENCY)
            | (Form::CURRENCY, Multiply | Divide, Form::INT)
            | (Form::INT, Multiply, Form::CURRENCY) => Some(Form::CURRENCY),
            // A constant number is an amount next to one.
            (Form::CURRENCY, Add | Subtract | Multiply, Form::INT | Form::FLOAT) => {
                right.as_currency().map(|amount| {
                    right = amount;
                    Form::CURRENCY
                })
            }
            (Form::INT | Form::FLOAT, Add | Subtract | Multiply, Form::CURRENCY) => {
                left.as_currency().map(|amount| {
                    left = amount;
                    Form::CURRENCY
                })
            }
            (Form::TEXT, Add, Form::TEXT) => Some(Form::TEXT),
            (Form::DATE, Add | Subtract, Form::INT) => Some(Form::DATE),
            (Form::DATE, Subtract, Form::DATE) => Some(Form::INT),
            (Form::TEXT, Add, Form::Null) | (Form::Null, Add, Form::TEXT) => Some(Form::TEXT),
            (form, _, Form::Null) | (Form::Null, _, form) if form.is_number() => Some(form),
            _ => None,
        };
        match form {
            Some(form) => Ok((Node::Binary(operator, Box::new([left, right])), form)),
            None => {
                let hint = match (one, other) {
                    (Form::TEXT, _) | (_, Form::TEXT) if operator == Add => {
                        "; text(…) makes a text of a value"
                    }
                    _ => "",
                };
                let what = format!(
                    "has `{}` between {} and {}{hint}",
                    operator.symbol(),
                    one.name(),
                    other.name()
                );
                Err(self.cursor.error(&what))
            }
        }
    }
}

/// Returns the form of a field's values.
fn form_of(field: &Field) -> std::result::Result<Form, &'static str> {
    match &field.kind {
        Kind::Int { .. } if field.role == Role::Key => {
            Err("the key, which is not known before the insert")
        }
        Kind::Blob | Kind::Json | Kind::File { .. } | Kind::Vector { .. } => {
            Err("whose kind expressions cannot read")
        }
        Kind::Enum { .. } => match field.kind.form() {
            ValueForm::Text => Ok(Form::TEXT),
            _ => Err("an enum that is stored as integers, which expressions cannot read"),
        },
        Kind::Reference { key, .. } => Ok(match key {
            KeyKind::Auto => Form::INT,
            KeyKind::Uuid => Form::UUID,
            KeyKind::Text => Form::TEXT,
        }),
        kind => Ok(Form::Of(kind.form())),
    }
}
