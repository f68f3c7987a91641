//! Query parameters of the URL, validated: each parameter is known and appears once, each field
//! exists, and each number is in its range.
//!
//! ```text
//! GET /api/person?filter=name ~ 'noether'&order=-name&limit=10&fields=id,name&count=true
//! GET /api/person?visits=0&year_of_birth=null
//! DELETE /api/person?filter=id > 7
//! POST /api/person?on_conflict=update
//! ```
//!
//! (Spaces and quotes are percent-encoded in a real request.) An unknown parameter is an error on
//! each route, so that a misspelled `fliter` does not select all rows. The error names the
//! parameter, its value, the rule and the permitted values:
//!
//! ```text
//! HTTP/1.1 400 Bad Request
//! Content-Type: application/problem+json
//!
//! {"type":"urn:marmota:error:invalid",…,"status":400,…,"errors":[{"field":"limit",
//!  "value":"\"0\"","rule":"range","message":"must be an integer between 1 and 1000"}]}
//! ```

use marmota_http::{QueryParams, Request};
use marmota_model::text::{integer, parse};
use marmota_model::{
    Comparison, FieldSet, FilterExpr, GroupQuery, Kind, RANKED_ROWS_MAX, RankedQuery, RowQuery,
    SortKey, Table, parse_filter, parse_order, parse_ranking,
};
use marmota_store::operation::OnConflict;
use marmota_store::rights::{check_exposed, check_fields_exposed};
use marmota_web::{ApiError, ApiResult};

use crate::protocol::body::preference;
use crate::protocol::cursor;
use crate::protocol::refusal::{of_param, of_url};
use crate::request::ranked::{RankedOrder, Snippets};
use crate::request::state::ApiState;

/// The parameters of a list that are not fields. A field with one of these names is selected by
/// `filter`.
const OF_LISTS: [&str; 11] = [
    "filter", "order", "limit", "after", "fields", "count", "expand", "snippet", "group", "select",
    "having",
];

/// The parameters of a list.
///
/// Pages and lists of lines have the same parameters. They differ in the default and the maximum of
/// `limit`, and in `count`, which applies to pages only.
#[derive(Debug)]
pub(crate) struct ListParams {
    /// The query, with the limit of the page.
    pub(crate) query: RowQuery,
    /// The fields to return; the query may read more.
    pub(crate) shown: FieldSet,
    /// The maximum number of rows to return: `limit`, or the default.
    pub(crate) rows_max: u64,
    /// True if the total number of rows is requested.
    pub(crate) count: bool,
    /// The relations to expand, as text.
    pub(crate) expand: Option<String>,
    /// The computed order of the page, if it has one.
    pub(crate) ranked: Option<RankedOrder>,
    /// The extracts of fields.
    pub(crate) snippets: Option<Snippets>,
}

/// Returns an error for any parameter, on routes without parameters.
///
/// # Errors
/// 400 with the parameter.
pub(crate) fn none(request: &Request) -> ApiResult<()> {
    match request.query_params().next() {
        None => Ok(()),
        Some((name, value)) => Err(unknown(&name, &value, "this route accepts no parameters")),
    }
}

/// Returns the conflict action in `?on_conflict=`. Default: refuse.
///
/// # Errors
/// 400 for an unknown action, or another parameter.
pub(crate) fn on_conflict(request: &Request) -> ApiResult<OnConflict> {
    let mut way = None;
    for (name, value) in request.query_params() {
        if name != "on_conflict" {
            return Err(unknown(
                &name,
                &value,
                "this route accepts only the parameter `on_conflict`",
            ));
        }
        once(&mut way, "on_conflict", &value, self::way(&value)?)?;
    }
    Ok(way.unwrap_or_default())
}

/// Returns the 400 error for an idempotent request with parameters.
pub(crate) fn no_key_beside_parameters() -> ApiError {
    ApiError::bad_request(
        "a POST with `Idempotency-Key` accepts no parameters; a POST with `on_conflict` can be \
         repeated without a key, or sent in a batch",
    )
}

/// Parses a conflict action: `refuse`, `ignore`, `replace` or `update`. Batches use it for their
/// member of this name.
///
/// # Errors
/// 400 for an unknown action.
pub(crate) fn way(word: &str) -> ApiResult<OnConflict> {
    match word {
        "refuse" => Ok(OnConflict::Refuse),
        "ignore" => Ok(OnConflict::Ignore),
        "replace" => Ok(OnConflict::Replace),
        "update" => Ok(OnConflict::UPDATE),
        other => Err(of_param(
            "on_conflict",
            other,
            "one_of",
            "must be refuse, ignore, replace or update".to_owned(),
        )),
    }
}

/// Returns an error for the parameters that only a page as JSON has: relations to expand, a computed
/// order and extracts.
///
/// # Errors
/// 400 with the parameter.
pub(crate) fn refuse_of_pages(params: &ListParams) -> ApiResult<()> {
    if params.ranked.is_some() {
        let message = "applies only to pages as JSON; order by fields";
        return Err(of_param("order", "rank", "unknown", message.to_owned()));
    }
    params.query.refuse_related("this read").map_err(of_url)?;
    if params.snippets.is_some() {
        let message = "applies only to pages as JSON";
        return Err(of_param("snippet", "", "unknown", message.to_owned()));
    }
    match &params.expand {
        None => Ok(()),
        Some(text) => {
            let message = "applies only to pages as JSON and to single rows";
            Err(of_param("expand", text, "unknown", message.to_owned()))
        }
    }
}

/// Returns the fields in `?fields=`, the table's default set without it, and the relations in
/// `?expand=`.
///
/// # Errors
/// 400 for a field that the table does not have, or another parameter.
pub(crate) fn of_row(request: &Request, table: &Table) -> ApiResult<(FieldSet, Option<String>)> {
    let (mut chosen, mut expand) = (None, None);
    for (name, value) in request.query_params() {
        match &*name {
            "fields" => once(&mut chosen, "fields", &value, parse_fields(table, &value)?)?,
            "expand" => once(&mut expand, "expand", &value, value.to_string())?,
            _ => {
                let message = "this route accepts only the parameters `fields` and `expand`";
                return Err(unknown(&name, &value, message));
            }
        }
    }
    Ok((chosen.unwrap_or(table.read_by_default()), expand))
}

/// Returns the filter in `?filter=`, which is required, so that a DELETE without parameters does
/// not delete all rows.
///
/// # Errors
/// 400 with the position of the error, or if it is missing.
pub(crate) fn required_filter(request: &Request, table: &Table) -> ApiResult<FilterExpr> {
    let mut filter = None;
    for (name, value) in request.query_params() {
        if name != "filter" {
            return Err(unknown(&name, &value, "this route accepts only the parameter `filter`"));
        }
        once(&mut filter, "filter", &value, of_filter(table, &value)?)?;
    }
    filter.ok_or_else(|| {
        let key = &table.fields()[table.key()].name;
        of_param(
            "filter",
            "",
            "required",
            format!(
                "a filter is required: delete rows with one such as ?filter={key} = 7, all rows \
                 with ?filter={key} != null, and one row at the path of the row"
            ),
        )
    })
}

/// Returns the parameters of a page of a list, from the query of its URL.
///
/// # Errors
/// 400 with the parameter, its value and the allowed values.
pub(crate) fn list(query: &str, table: &Table, api: &ApiState) -> ApiResult<ListParams> {
    let params = of_list(query, table, api.page_rows_default, api.page_rows_max)?;
    if params.rows_max == 0 && !params.count {
        let message = format!(
            "must be an integer between 1 and {}, or 0 with `count=true`",
            api.page_rows_max
        );
        return Err(of_param("limit", "0", "range", message));
    }
    Ok(params)
}

/// Returns the preference `count` of the request, `exact` or `estimated`; `None` without it.
///
/// # Errors
/// 400 for another word.
pub(crate) fn preferred_count(request: &Request) -> ApiResult<Option<CountKind>> {
    match preference(request, "count").as_deref() {
        None => Ok(None),
        Some("exact") => Ok(Some(CountKind::Exact)),
        Some("estimated") => Ok(Some(CountKind::Estimated)),
        Some(other) => Err(ApiError::bad_request(format!(
            "`Prefer: count={}` must be exact or estimated",
            marmota_model::text::excerpt(other)
        ))),
    }
}

/// How the rows of a list are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountKind {
    /// Their exact number.
    Exact,
    /// An estimate, if the engine has one.
    Estimated,
}

/// Returns true if the query of a URL requests groups instead of rows.
pub(crate) fn requests_groups(query: &str) -> bool {
    // Every list passes here, so names with another first letter are not decoded.
    let mut is_start = true;
    query.bytes().enumerate().any(|(at, byte)| {
        let may_be = is_start && matches!(byte, b'g' | b's' | b'h' | b'%');
        is_start = byte == b'&';
        may_be && names_groups(&query[at..])
    })
}

/// Returns true if the first parameter of a query is one of groups.
fn names_groups(query: &str) -> bool {
    let first = QueryParams::new(query).next();
    first.is_some_and(|(name, _)| matches!(&*name, "group" | "select" | "having"))
}

/// Returns the parameters of a list of groups.
///
/// # Errors
/// 400 for an unknown, repeated or invalid parameter, or for an unknown field in one.
pub(crate) fn groups(text: &str, table: &Table, api: &ApiState) -> ApiResult<(GroupQuery, Table)> {
    let mut query = GroupQuery::new();
    let (mut by, mut select, mut having, mut order, mut limit) = (None, None, None, None, None);
    let mut rows = RowConditions::default();
    for (name, value) in QueryParams::new(text) {
        match &*name {
            "group" => once(&mut by, &name, &value, value.to_string())?,
            "select" => once(&mut select, &name, &value, value.to_string())?,
            "having" => once(&mut having, &name, &value, value.to_string())?,
            "order" => once(&mut order, &name, &value, value.to_string())?,
            "limit" => {
                let parsed = of_limit(&value, api.page_rows_max)?;
                if parsed == 0 {
                    return Err(limit_range(&value, api.page_rows_max));
                }
                once(&mut limit, &name, &value, parsed)?;
            }
            "after" | "fields" | "count" | "expand" | "snippet" => {
                let message = "does not apply to groups; use `group`, `select`, `having`, `order` \
                               and `limit`";
                return Err(of_param(&name, &value, "unknown", message.to_owned()));
            }
            _ => rows.add(table, &name, &value)?,
        }
    }
    if let Some(by) = by {
        query.group_by(table, &by).map_err(of_url)?;
        check_fields_exposed(table, &query.related, "group").map_err(of_url)?;
    }
    if let Some(select) = select {
        query.select(table, &select).map_err(of_url)?;
    }
    query.filter = rows.filter();
    query.limit = Some(limit.unwrap_or(api.page_rows_default));
    let result = query.result(table).map_err(of_url)?;
    if let Some(having) = having {
        query.having = Some(of_filter(&result, &having)?);
    }
    if let Some(order) = order {
        query.order = of_order(&result, &order).map_err(of_url)?;
    }
    query.check(table).map_err(of_url)?;
    Ok((query, result))
}

/// The conditions on rows of a URL: `filter`, and equality with fields.
#[derive(Debug, Default)]
struct RowConditions {
    filter: Option<FilterExpr>,
    equal: Vec<FilterExpr>,
    named: FieldSet,
}

impl RowConditions {
    /// Adds the parameter `filter`, or a field.
    ///
    /// # Errors
    /// 400 for another or a repeated parameter, or an invalid value.
    fn add(&mut self, table: &Table, name: &str, value: &str) -> ApiResult<()> {
        if name == "filter" {
            return once(&mut self.filter, name, value, of_filter(table, value)?);
        }
        let Some(field) = table.find(name) else {
            return Err(unknown_of_list(table, name, value));
        };
        if self.named.contains(field) {
            return Err(twice(name, value));
        }
        self.named = self.named.with(field);
        self.equal.push(of_field(table, field, value)?);
        Ok(())
    }

    /// Returns the conditions combined with *and*.
    fn filter(mut self) -> Option<FilterExpr> {
        self.equal.extend(self.filter);
        match self.equal.len() {
            0 | 1 => self.equal.pop(),
            _ => Some(FilterExpr::And(self.equal)),
        }
    }
}

/// Returns the parameters of a list without pages.
///
/// # Errors
/// As [`list`], and for the parameter `count`.
pub(crate) fn lines(request: &Request, table: &Table) -> ApiResult<ListParams> {
    let rows_max = i64::MAX as u64;
    let params = of_list(request.query(), table, rows_max, rows_max)?;
    if params.rows_max == 0 {
        return Err(limit_range("0", rows_max));
    }
    if params.count {
        let message = "applies only to pages; NDJSON returns all rows";
        return Err(of_param("count", "true", "unknown", message.to_owned()));
    }
    refuse_of_pages(&params)?;
    Ok(params)
}

/// Parses the parameters of a list: `rows_default` is the limit without `limit`, `rows_max` its
/// maximum.
///
/// Conditions on fields and `filter` are combined with *and*. The query reads the fields of its
/// order, even if they are not shown, because the cursor of the next page consists of them. The
/// cursor is parsed last: it belongs to an order, which may follow it in the URL.
///
/// # Errors
/// 400 for an unknown, repeated or invalid parameter, or for an unknown field in one.
fn of_list(text: &str, table: &Table, rows_default: u64, rows_max: u64) -> ApiResult<ListParams> {
    let mut query = RowQuery::new();
    let (mut order, mut limit, mut after, mut shown, mut count) = (None, None, None, None, None);
    let (mut rows, mut expand, mut snippet) = (RowConditions::default(), None, None);
    for (name, value) in QueryParams::new(text) {
        match &*name {
            "expand" => once(&mut expand, &name, &value, value.to_string())?,
            "snippet" => once(&mut snippet, &name, &value, of_snippet(table, &value)?)?,
            "order" => once(&mut order, &name, &value, value.to_string())?,
            "limit" => once(&mut limit, &name, &value, of_limit(&value, rows_max)?)?,
            "after" => once(&mut after, &name, &value, value.to_string())?,
            "fields" => once(&mut shown, &name, &value, parse_fields(table, &value)?)?,
            "count" => once(&mut count, &name, &value, of_count(&value)?)?,
            _ => rows.add(table, &name, &value)?,
        }
    }
    query.filter = rows.filter();
    let filter = query.filter.as_ref();
    let by = match &order {
        Some(order) => parse_ranking(table, order, filter).map_err(of_url)?,
        None => None,
    };
    let snippets = snippet.map(|fields| Snippets::new(table, fields, filter).map_err(of_url));
    let snippets = snippets.transpose()?;
    let mut ranked = by.map(|by| RankedOrder { by, after: None });
    match (&mut ranked, after) {
        (Some(ranked), Some(after)) => {
            ranked.after = Some(cursor::read_place(table, &ranked.by, &after)?);
        }
        (Some(_), None) => {}
        (None, after) => {
            if let Some(order) = order {
                append_order(table, &order, &mut query).map_err(of_url)?;
            }
            if let Some(after) = after {
                query.after = Some(cursor::read(table, &query, &after)?);
            }
        }
    }
    let shown = shown.unwrap_or(table.read_by_default());
    let order = query.order_with_key(table);
    let mut fields = order.iter().fold(shown, |fields, by| fields.with(by.field));
    if let Some(snippets) = &snippets {
        fields = fields.union(snippets.fields());
    }
    if let Some(ranked) = &ranked {
        fields = fields.union(ranked.by.fields());
        let checked = RankedQuery { limit: 0, ..ranked.query(&query) };
        checked.check(table).map_err(of_url)?;
    }
    query.fields = Some(fields);
    query.check(table).map_err(of_url)?;
    let mut rows_max = limit.unwrap_or(rows_default);
    // The query reads one row more.
    if ranked.is_some() && rows_max >= RANKED_ROWS_MAX {
        if limit.is_some() {
            return Err(limit_range(&rows_max.to_string(), RANKED_ROWS_MAX - 1));
        }
        rows_max = RANKED_ROWS_MAX - 1;
    }
    let count = count.unwrap_or(false);
    Ok(ListParams { query, shown, rows_max, count, expand, ranked, snippets })
}

/// Parses the fields of extracts, which can be searched.
///
/// # Errors
/// 400 for an unknown field, or one that cannot be searched.
fn of_snippet(table: &Table, text: &str) -> ApiResult<FieldSet> {
    let fields = parse_fields(table, text)?;
    match fields.iter().find(|&field| !table.fields()[field].search) {
        None => Ok(fields),
        Some(field) => {
            let name = &table.fields()[field].name;
            let message = format!("names `{name}`, which is not a field that can be searched");
            Err(of_param("snippet", text, "search", message))
        }
    }
}

/// Stores a parsed parameter in its slot.
///
/// # Errors
/// 400 if the slot is occupied: the parameter occurs twice.
fn once<T>(slot: &mut Option<T>, name: &str, text: &str, value: T) -> ApiResult<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(name, text)),
    }
}

/// Returns the error for a parameter that occurs twice. The last one could be meant, or both.
#[cold]
fn twice(name: &str, value: &str) -> ApiError {
    let message = "must occur only once; use `filter` for several conditions on a field";
    of_param(name, value, "twice", message.to_owned())
}

/// Returns the error for a parameter that the route does not have; `why` names those that it has.
#[cold]
fn unknown(name: &str, value: &str, why: &str) -> ApiError {
    of_param(name, value, "unknown", why.to_owned())
}

/// Returns the error for a parameter that is neither one of lists nor a field, with the names of
/// both.
#[cold]
fn unknown_of_list(table: &Table, name: &str, value: &str) -> ApiError {
    let message = format!(
        "is not a parameter of a list; allowed are {} and the fields of `{}`: {}",
        OF_LISTS.join(", "),
        table.name(),
        table.field_names().join(", ")
    );
    of_param(name, value, "unknown", message)
}

/// Parses a condition such as `name ~ 'noether' and visits > 7` for a table.
///
/// # Errors
/// 400 with the position of the error, with the unknown field, or for a related table that is
/// internal.
pub(crate) fn of_filter(table: &Table, text: &str) -> ApiResult<FilterExpr> {
    let parsed = parse_filter(table, text).and_then(|filter| {
        let filter = filter.into_expr_for(table)?;
        check_exposed(table, &filter)?;
        Ok(filter)
    });
    parsed.map_err(of_url)
}

/// Parses an order such as `-name,id`: fields, with `-` for descending.
///
/// # Errors
/// 400 for an unknown field, or one that cannot be ordered by.
pub(crate) fn of_order(table: &Table, text: &str) -> marmota_model::Result<Vec<SortKey>> {
    parse_order(table, text)?.into_iter().map(|order| order.into_key_for(table)).collect()
}

/// Parses an order such as `-assignee.name,id` into a query: fields of the table and of rows to
/// which references lead.
///
/// # Errors
/// As [`of_order`].
fn append_order(table: &Table, text: &str, query: &mut RowQuery) -> marmota_model::Result<()> {
    for order in parse_order(table, text)? {
        order.append_to_query_of(table, query)?;
    }
    check_fields_exposed(table, &query.related, "order")
}

/// Parses a number of rows, from 0 to `rows_max`. The caller checks whether 0 is allowed.
pub(crate) fn of_limit(text: &str, rows_max: u64) -> ApiResult<u64> {
    let rows = integer(text).and_then(|rows| u64::try_from(rows).ok());
    rows.filter(|rows| *rows <= rows_max).ok_or_else(|| limit_range(text, rows_max))
}

#[cold]
fn limit_range(text: &str, rows_max: u64) -> ApiError {
    let message = format!("must be an integer between 1 and {rows_max}");
    of_param("limit", text, "range", message)
}

/// Parses a flag. A parameter without a value, as in `?count`, is true.
fn of_count(text: &str) -> ApiResult<bool> {
    match text {
        "true" | "1" | "" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(of_param("count", text, "type", "must be true or false".to_owned())),
    }
}

/// Returns the filter of `?field=value`: equality with the value, in the text form of the field's
/// kind. `null` selects rows without a value, but in a text field it is the text `null`.
///
/// # Errors
/// 400 if the text is not a value of the field's kind.
fn of_field(table: &Table, position: usize, text: &str) -> ApiResult<FilterExpr> {
    let field = &table.fields()[position];
    let is_text = matches!(
        field.kind,
        Kind::Text { .. } | Kind::Reference { key: marmota_model::KeyKind::Text, .. }
    );
    if text == "null" && field.nullable && !is_text {
        return Ok(FilterExpr::IsNull { field: position });
    }
    match parse(&field.kind, text) {
        Ok(value) => Ok(FilterExpr::Compare {
            field: position,
            comparison: Comparison::Equal,
            value: value.to_value(),
        }),
        Err(what) => {
            Err(of_param(&field.name, text, "type", format!("must be compared with {what}")))
        }
    }
}

/// Parses the names of fields, separated by commas.
///
/// # Errors
/// 400 for an unknown field, with the known ones.
pub(crate) fn parse_fields(table: &Table, text: &str) -> ApiResult<FieldSet> {
    let mut fields = FieldSet::EMPTY;
    for name in text.split(',') {
        fields = fields.with(table.position(name.trim()).map_err(of_url)?);
    }
    Ok(fields)
}
