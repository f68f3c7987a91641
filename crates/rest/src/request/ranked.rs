//! What a search adds to a page: the scores of its rows in the order `rank`, and extracts of fields
//! with the words that were found.
//!
//! ```text
//! GET /api/note?filter=@ 'marmot'&order=rank&snippet=text
//!
//! {"rows":[{"id":7,"text":"…"}],"next":null,"scores":[1.62],
//!  "snippets":[{"text":"…the <mark>marmot</mark> sleeps"}]}
//! ```
//!
//! Both are lists with a member for each row, in the order of the rows, so that they cannot conflict
//! with the names of fields. The text of an extract is escaped for HTML.

use marmota_model::{
    FieldSet, FilterExpr, RankPlace, RankedQuery, RankedSearch, Ranker, Ranking, RowQuery, Search,
    Snippet, Table, ValueRef, json,
};

/// The order of a page by a computed score.
#[derive(Clone, Debug)]
pub(crate) struct RankedOrder {
    pub(crate) by: Ranking,
    pub(crate) after: Option<RankPlace>,
}

/// The extracts that a page has.
#[derive(Clone, Debug)]
pub(crate) struct Snippets {
    fields: FieldSet,
    searches: Vec<RankedSearch>,
}

impl Snippets {
    /// Returns the extracts of fields for the searches of a filter.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] if the filter has no search.
    pub(crate) fn new(
        table: &Table,
        fields: FieldSet,
        filter: Option<&FilterExpr>,
    ) -> marmota_model::Result<Self> {
        let by = Ranking::relevance(table, filter)?;
        Ok(Self { fields, searches: by.searches().to_vec() })
    }

    /// Returns the fields that it reads.
    pub(crate) const fn fields(&self) -> FieldSet {
        self.fields
    }

    /// Appends the extracts of a row, as an object.
    fn write(&self, out: &mut Vec<u8>, table: &Table, row: &[ValueRef<'_>]) {
        out.push(b'{');
        for (at, field) in self.fields.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            json::write_string(out, &table.fields()[field].name);
            out.push(b':');
            match row[field] {
                ValueRef::Text(text) => {
                    let searches = self.searches.iter().filter(|by| by.fields.contains(field));
                    let searches: Vec<&Search> = searches.map(|by| &by.search).collect();
                    let language = table.schema().search_language;
                    let snippet = Snippet::in_language(text, &searches, language);
                    json::write_string(out, &snippet.to_html());
                }
                _ => out.extend_from_slice(b"null"),
            }
        }
        out.push(b'}');
    }
}

/// The members of a page that a search adds, so far.
#[derive(Debug, Default)]
pub(crate) struct Computed {
    ranker: Option<Ranker>,
    scores: Vec<u8>,
    snippets: Vec<u8>,
}

impl Computed {
    /// Creates the members of a page without rows.
    pub(crate) fn new(table: &Table, order: Option<&RankedOrder>) -> Self {
        let ranker = order.map(|order| Ranker::new(table.schema(), order.by.clone()));
        Self { ranker, ..Self::default() }
    }

    /// Adds a row. Returns its place, for the cursor of the next page, if the page is ranked.
    pub(crate) fn add(
        &mut self,
        table: &Table,
        snippets: Option<&Snippets>,
        row: &[ValueRef<'_>],
    ) -> Option<RankPlace> {
        if let Some(snippets) = snippets {
            separate(&mut self.snippets);
            snippets.write(&mut self.snippets, table, row);
        }
        let score = self.ranker.as_mut()?.score(row).unwrap_or_default();
        separate(&mut self.scores);
        let mut number = serde_json::to_vec(&score).unwrap_or_default();
        self.scores.append(&mut number);
        Some(RankPlace { score, key: row[table.key()].to_value() })
    }

    /// Returns the members, each with a comma in front.
    pub(crate) fn members(&self, has_snippets: bool) -> Vec<u8> {
        let mut members = Vec::new();
        let lists = [
            (self.ranker.is_some(), "scores", &self.scores),
            (has_snippets, "snippets", &self.snippets),
        ];
        for (_, name, list) in lists.into_iter().filter(|(is_in, ..)| *is_in) {
            members.extend_from_slice(format!(",\"{name}\":[").as_bytes());
            members.extend_from_slice(list);
            members.push(b']');
        }
        members
    }
}

fn separate(list: &mut Vec<u8>) {
    if !list.is_empty() {
        list.push(b',');
    }
}

impl RankedOrder {
    /// Returns the query of a page with the conditions and fields of `rows`.
    pub(crate) fn query(&self, rows: &RowQuery) -> RankedQuery {
        RankedQuery {
            filter: rows.filter.clone(),
            by: self.by.clone(),
            limit: rows.limit.unwrap_or_default(),
            after: self.after.clone(),
            fields: rows.fields,
        }
    }
}
