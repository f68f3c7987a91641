//! Reads the condition of a partial index, as SQLite and PostgreSQL report it, as a filter's text.
//! A condition that no filter states is not read: `None`.

/// The maximum depth of parentheses.
const DEPTH_MAX: usize = 16;
/// The maximum number of bytes of a condition.
const BYTES_MAX: usize = 4_096;

/// A word of SQL.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A name or a keyword.
    Word(String),
    /// A name in quotes.
    Quoted(String),
    /// A number, with its sign.
    Number(String),
    /// A text.
    Text(String),
    /// Another character, or an operator.
    Sign(&'static str),
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Field { name: String, is_bool: bool },
    Constant(Token),
}

/// A part of a filter.
struct Part {
    text: String,
    /// True if it has several conditions.
    is_list: bool,
}

struct Reader<'r> {
    tokens: Vec<Token>,
    at: usize,
    field: &'r dyn Fn(&str) -> Option<(String, bool)>,
}

/// Returns the condition of `CREATE INDEX … WHERE condition`.
#[must_use]
pub fn condition_of(create_index: &str) -> Option<&str> {
    let bytes = create_index.as_bytes();
    let (mut at, mut depth, mut closed) = (0, 0_usize, false);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"' | b'`') => {
                at += 1 + bytes[at + 1..].iter().position(|&byte| byte == quote)?;
            }
            b'[' => at += bytes[at..].iter().position(|&byte| byte == b']')?,
            b'(' => depth += 1,
            b')' => {
                depth = depth.checked_sub(1)?;
                closed |= depth == 0;
            }
            _ if closed && depth == 0 && starts_with_where(&bytes[at..]) => {
                return create_index.get(at + 5..).map(str::trim);
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn starts_with_where(bytes: &[u8]) -> bool {
    bytes.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"where"))
        && bytes.get(5).is_some_and(|next| !next.is_ascii_alphanumeric() && *next != b'_')
}

/// Returns the text of the filter; `field` returns the field of a column, and true for booleans.
pub(crate) fn filter_text(
    sql: &str,
    field: &dyn Fn(&str) -> Option<(String, bool)>,
) -> Option<String> {
    let tokens = if sql.len() <= BYTES_MAX { tokens(sql)? } else { return None };
    let mut reader = Reader { tokens, at: 0, field };
    let part = reader.any(0)?;
    (reader.at == reader.tokens.len()).then_some(part.text)
}

fn tokens(sql: &str) -> Option<Vec<Token>> {
    const SIGNS: [&str; 17] =
        ["::", "<=", ">=", "<>", "!=", "==", "=", "<", ">", "(", ")", ",", "[", "]", "-", "+", "."];
    let mut found = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let of_array = found.last().is_some_and(is_array) || rest.starts_with("[]");
        rest = if let '\'' | '"' | '`' = first {
            let (text, after) = until(&rest[1..], first)?;
            found.push(if first == '\'' { Token::Text(text) } else { Token::Quoted(text) });
            after
        } else if first == '[' && !of_array {
            // A name, as SQLite accepts it.
            let (name, after) = rest[1..].split_once(']')?;
            found.push(Token::Quoted(name.to_owned()));
            after
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            found.push(Token::Number(rest[..end].to_owned()));
            &rest[end..]
        } else if is_word(first) {
            let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_owned()));
            &rest[end..]
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
            found.push(Token::Sign(sign));
            &rest[sign.len()..]
        }
        .trim_start();
    }
    Some(found)
}

fn is_array(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("ARRAY"))
}

/// Returns the text up to a quote, in which a doubled quote is one, and what follows.
fn until(text: &str, quote: char) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            found.push(c);
        } else if chars.next_if(|&(_, next)| next == quote).is_some() {
            found.push(quote);
        } else {
            return Some((found, &text[at + 1..]));
        }
    }
    None
}

impl Reader<'_> {
    fn take(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.tokens.get(self.at), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.tokens.get(self.at), Some(Token::Word(found))
            if found.eq_ignore_ascii_case(word));
        self.at += usize::from(is_it);
        is_it
    }

    fn any(&mut self, depth: usize) -> Option<Part> {
        self.list(depth, "OR", Self::all)
    }

    fn all(&mut self, depth: usize) -> Option<Part> {
        self.list(depth, "AND", Self::single)
    }

    /// Reads parts between which `word` stands.
    fn list(
        &mut self,
        depth: usize,
        word: &str,
        part: fn(&mut Self, usize) -> Option<Part>,
    ) -> Option<Part> {
        let first = part(self, depth)?;
        let mut parts = vec![first];
        while self.take_word(word) {
            parts.push(part(self, depth)?);
        }
        if parts.len() == 1 {
            return parts.pop();
        }
        let in_parentheses = |part: Part| match part.is_list {
            true => format!("({})", part.text),
            false => part.text,
        };
        let parts: Vec<String> = parts.into_iter().map(in_parentheses).collect();
        let text = parts.join(&format!(" {} ", word.to_ascii_lowercase()));
        Some(Part { text, is_list: true })
    }

    fn single(&mut self, depth: usize) -> Option<Part> {
        if depth > DEPTH_MAX {
            return None;
        }
        if self.take_word("NOT") {
            let text = format!("not ({})", self.single(depth + 1)?.text);
            return Some(Part { text, is_list: false });
        }
        let start = self.at;
        if let Some(text) = self.comparison() {
            return Some(Part { text, is_list: false });
        }
        self.at = start;
        if !self.take("(") {
            return None;
        }
        let part = self.any(depth + 1)?;
        self.take(")").then_some(part)
    }

    fn comparison(&mut self) -> Option<String> {
        let Operand::Field { name, is_bool } = self.operand(0)? else { return None };
        if self.take_word("IS") {
            let sign = if self.take_word("NOT") { "!=" } else { "=" };
            return self.take_word("NULL").then(|| format!("{name} {sign} null"));
        }
        let is_not_in = self.take_word("NOT");
        if self.take_word("IN") {
            let values = self.values(is_bool)?;
            let not = if is_not_in { "not " } else { "" };
            return Some(format!("{name} {not}in ({values})"));
        }
        if is_not_in {
            return None;
        }
        const SIGNS: [(&str, &str); 8] = [
            ("==", "="),
            ("=", "="),
            ("<>", "!="),
            ("!=", "!="),
            ("<=", "<="),
            (">=", ">="),
            ("<", "<"),
            (">", ">"),
        ];
        let Some((_, sign)) = SIGNS.into_iter().find(|(sql, _)| self.take(sql)) else {
            return is_bool.then(|| format!("{name} = true"));
        };
        if sign == "=" && self.take_word("ANY") {
            // PostgreSQL's form of a list.
            let parentheses = (0..3).take_while(|_| self.take("(")).count();
            if !self.take_word("ARRAY") || !self.take("[") {
                return None;
            }
            let values = self.constants(is_bool, "]")?;
            for _ in 0..parentheses {
                self.cast();
                self.take(")").then_some(())?;
            }
            return Some(format!("{name} in ({values})"));
        }
        let Operand::Constant(value) = self.operand(0)? else { return None };
        Some(format!("{name} {sign} {}", constant(&value, is_bool)?))
    }

    /// Reads a list in parentheses.
    fn values(&mut self, is_bool: bool) -> Option<String> {
        self.take("(").then_some(())?;
        self.constants(is_bool, ")")
    }

    fn constants(&mut self, is_bool: bool, end: &str) -> Option<String> {
        let mut values = Vec::new();
        loop {
            let Operand::Constant(value) = self.operand(0)? else { return None };
            values.push(constant(&value, is_bool)?);
            if self.take(end) {
                return Some(values.join(", "));
            }
            self.take(",").then_some(())?;
        }
    }

    fn operand(&mut self, depth: usize) -> Option<Operand> {
        if depth > DEPTH_MAX {
            return None;
        }
        let operand = if self.take("(") {
            let operand = self.operand(depth + 1)?;
            self.take(")").then_some(operand)?
        } else {
            let minus = self.take("-");
            let token = self.tokens.get(self.at)?.clone();
            self.at += 1;
            match token {
                Token::Number(number) => {
                    let minus = if minus { "-" } else { "" };
                    Operand::Constant(Token::Number(format!("{minus}{number}")))
                }
                _ if minus => return None,
                Token::Text(_) => Operand::Constant(token),
                Token::Word(word)
                    if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") =>
                {
                    Operand::Constant(Token::Word(word.to_ascii_lowercase()))
                }
                Token::Word(name) | Token::Quoted(name) => {
                    let (name, is_bool) = (self.field)(&name)?;
                    Operand::Field { name, is_bool }
                }
                Token::Sign(_) => return None,
            }
        };
        self.cast();
        Some(operand)
    }

    /// Skips casts of PostgreSQL, such as `::character varying(9)[]`.
    fn cast(&mut self) {
        while self.take("::") {
            self.at += 1;
            let more = ["varying", "precision", "with", "without", "time", "zone"];
            while more.iter().any(|word| self.take_word(word)) {}
            if self.take("(") {
                while self.at < self.tokens.len() && !self.take(")") {
                    self.at += 1;
                }
            }
            if self.take("[") {
                self.take("]");
            }
        }
    }
}

/// Returns a constant in the grammar of filters.
fn constant(value: &Token, is_bool: bool) -> Option<String> {
    match value {
        Token::Number(number) if is_bool => match &**number {
            "0" => Some("false".to_owned()),
            "1" => Some("true".to_owned()),
            _ => None,
        },
        Token::Number(number) => Some(number.clone()),
        Token::Word(word) if is_bool => Some(word.clone()),
        Token::Text(text) => Some(format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> Option<String> {
        filter_text(sql, &|name| {
            let known = ["deleted", "state", "rank", "done"];
            let name = known.into_iter().find(|known| known.eq_ignore_ascii_case(name))?;
            Some((name.to_owned(), name == "done"))
        })
    }

    #[test]
    fn conditions_of_both_databases_are_read() {
        for (sql, filter) in [
            ("deleted IS NULL", "deleted = null"),
            ("(deleted IS NOT NULL)", "deleted != null"),
            ("((state)::text = 'it''s'::text)", "state = 'it''s'"),
            ("\"State\" <> 'a\\b'", "state != 'a\\\\b'"),
            ("state IN ('a', 'b') AND rank > -3", "state in ('a', 'b') and rank > -3"),
            ("state NOT IN ('a')", "state not in ('a')"),
            (
                "((state)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying(9)])\
                 ::text[]))",
                "state in ('a', 'b')",
            ),
            ("(rank = ANY (ARRAY[(1)::bigint, (2)::bigint]))", "rank in (1, 2)"),
            ("done", "done = true"),
            ("(NOT done)", "not (done = true)"),
            (
                "((deleted IS NULL) OR [RANK] = 3) AND done",
                "(deleted = null or rank = 3) and done = true",
            ),
            ("done = 0 or (rank >= (10)::numeric)", "done = false or rank >= 10"),
        ] {
            assert_eq!(read(sql).as_deref(), Some(filter), "{sql}");
        }
    }

    #[test]
    fn other_conditions_are_not_read() {
        let deep = format!("{}deleted IS NULL{}", "(".repeat(99), ")".repeat(99));
        for sql in [
            "",
            "lower(state) = 'a'",
            "rank = rank",
            "rank % 2 = 0",
            "other IS NULL",
            "state = 'open",
            "deleted IS NULL)",
            "done = 2",
            "3 = rank",
            &deep,
        ] {
            assert_eq!(read(sql), None, "{sql}");
        }
    }

    #[test]
    fn the_condition_follows_the_columns() {
        for (sql, condition) in [
            ("CREATE INDEX a ON t (b) WHERE b IS NULL", Some("b IS NULL")),
            ("create unique index \"x where\" on t(\"where (\",f(b))where(b>1)", Some("(b>1)")),
            ("CREATE INDEX a ON t (b)", None),
            ("CREATE INDEX [a (] ON t (b) WHERE b = ')'", Some("b = ')'")),
        ] {
            assert_eq!(condition_of(sql), condition, "{sql}");
        }
    }
}
