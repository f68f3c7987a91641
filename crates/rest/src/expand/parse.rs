//! The text of `expand`: items with options, which may contain items.
//!
//! ```text
//! expand  = item {"," item}
//! item    = relation ["(" option {"," option} ")"]
//! option  = ("fields" | "filter" | "order" | "limit" | "expand") "=" text
//! ```
//!
//! The text of an option ends at a comma before the name of another option, so it may contain
//! commas: `assignee(fields=id,name,expand=team)`.

use marmota_web::ApiResult;

use super::limits::{DEPTH_MAX, refused};

/// A relation to expand, with its options.
#[derive(Debug, Default)]
pub(super) struct Item<'t> {
    /// The relation, as in the request.
    pub(super) relation: &'t str,
    /// The relations that lead to it, and itself, with dots between.
    pub(super) place: String,
    pub(super) fields: Option<String>,
    pub(super) filter: Option<String>,
    pub(super) order: Option<String>,
    pub(super) limit: Option<String>,
    /// The items within this one.
    pub(super) expand: Vec<Item<'t>>,
}

const OPTIONS: [&str; 5] = ["fields", "filter", "order", "limit", "expand"];

/// Parses the items of a text; `around` is the place of the item that contains them.
///
/// # Errors
/// 400 with the place of the invalid item.
pub(super) fn items<'t>(text: &'t str, around: &str, depth: usize) -> ApiResult<Vec<Item<'t>>> {
    if depth > DEPTH_MAX {
        let message = format!("relations nest at most {DEPTH_MAX} levels");
        return Err(refused(around, "depth", message));
    }
    split(text, around)?.into_iter().map(|part| item(part.trim(), around, depth)).collect()
}

fn item<'t>(text: &'t str, around: &str, depth: usize) -> ApiResult<Item<'t>> {
    let (relation, options) = match text.split_once('(') {
        None => (text, None),
        Some((relation, rest)) => match rest.strip_suffix(')') {
            Some(options) => (relation.trim(), Some(options)),
            None => {
                let message = "must end with `)` after its options".to_owned();
                return Err(refused(text, "syntax", message));
            }
        },
    };
    let place = match around {
        "" => relation.to_owned(),
        around => format!("{around}.{relation}"),
    };
    let mut item = Item { relation, place, ..Item::default() };
    let Some(options) = options else { return Ok(item) };
    for option in options_of(options, &item.place)? {
        let Some((name, value)) = option.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim());
        let slot = match name {
            "fields" => &mut item.fields,
            "filter" => &mut item.filter,
            "order" => &mut item.order,
            "limit" => &mut item.limit,
            _ if item.expand.is_empty() => {
                item.expand = items(value, &item.place, depth + 1)?;
                continue;
            }
            _ => return Err(twice(&item.place, name)),
        };
        if slot.replace(value.to_owned()).is_some() {
            return Err(twice(&item.place, name));
        }
    }
    Ok(item)
}

fn twice(place: &str, name: &str) -> marmota_web::ApiError {
    refused(place, "twice", format!("the option `{name}` must occur only once"))
}

/// Splits options at the commas before their names.
fn options_of<'t>(text: &'t str, place: &str) -> ApiResult<Vec<&'t str>> {
    let is_option =
        |part: &str| part.split_once('=').is_some_and(|(name, _)| OPTIONS.contains(&name.trim()));
    let mut options: Vec<&str> = Vec::new();
    let mut start = 0;
    let parts = split(text, place)?;
    for (at, part) in parts.iter().enumerate() {
        let end = start + part.len();
        if is_option(part) {
            options.push(part);
        } else if let (Some(option), true) = (options.last_mut(), at > 0) {
            let first = text[..start].len() - 1 - option.len();
            *option = &text[first..end];
        } else {
            let message = format!(
                "`{}` is not an option; the options are {}, each with `=`",
                marmota_model::text::excerpt(part),
                OPTIONS.join(", ")
            );
            return Err(refused(place, "unknown", message));
        }
        start = end + 1;
    }
    Ok(options)
}

/// Splits a text at the commas outside of parentheses and quotes.
fn split<'t>(text: &'t str, place: &str) -> ApiResult<Vec<&'t str>> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => {
                return Err(refused(
                    place_or(place, text),
                    "syntax",
                    "has a `)` without `(`".to_owned(),
                ));
            }
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 || quote.is_some() {
        let what = if quote.is_some() { "a quote that does not end" } else { "a `(` without `)`" };
        return Err(refused(place_or(place, text), "syntax", format!("has {what}")));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// Returns the place, or the text at the top.
const fn place_or<'t>(place: &'t str, text: &'t str) -> &'t str {
    if place.is_empty() { text } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(items: &[Item<'_>]) -> String {
        let one = |item: &Item<'_>| {
            let options = [
                ("fields", &item.fields),
                ("filter", &item.filter),
                ("order", &item.order),
                ("limit", &item.limit),
            ];
            let options = options.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            let options: Vec<String> =
                options.map(|(name, value)| format!("{name}:{value}")).collect();
            format!("{}[{}]{{{}}}", item.place, options.join(";"), shown(&item.expand))
        };
        items.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_may_contain_commas_parentheses_and_quotes() {
        for (text, wanted) in [
            ("a", "a[]{}"),
            ("a,b:c", "a[]{} b:c[]{}"),
            ("a(fields=x,y,limit=3),b", "a[fields:x,y;limit:3]{} b[]{}"),
            ("a(order=-x,y,fields=id)", "a[fields:id;order:-x,y]{}"),
            (
                "a(filter=x in (1,2) and y = 'o)''(',limit=1)",
                "a[filter:x in (1,2) and y = 'o)''(';limit:1]{}",
            ),
            ("a(expand=b(expand=c,limit=1),d)", "a[]{a.b[limit:1]{a.b.c[]{}} a.d[]{}}"),
        ] {
            let parsed = items(text, "", 1).map(|items| shown(&items)).map_err(|_| text);
            assert_eq!(parsed.unwrap(), wanted);
        }
    }

    #[test]
    fn errors_have_a_place() {
        for text in [
            "a(",
            "a)",
            "a('",
            "a(b)",
            "a(limit)",
            "a(limit=1,limit=2)",
            "a(fields=x)b",
            "a(expand=b(expand=c(expand=d)))",
        ] {
            assert!(items(text, "", 1).is_err(), "{text}");
        }
    }
}
