//! A model with named relations.

use marmota_derive::Model;
use marmota_model::{Model, Ref};

#[derive(Model)]
struct Label {
    id: i64,
    name: String,
}

#[derive(Model)]
#[model(relation(labels = "issue_label.label", links = "issue_label"))]
struct Issue {
    id: i64,
}

#[derive(Model)]
struct IssueLabel {
    id: i64,
    issue: Ref<Issue>,
    label: Ref<Label>,
}

#[test]
fn relations_are_in_the_schema() {
    let relations = &Issue::schema().relations;
    assert_eq!((&*relations[0].name, &*relations[0].path), ("labels", "issue_label.label"));
    assert_eq!(relations.len(), 2);
    assert!(IssueLabel::schema().relations.is_empty() && Label::schema().relations.is_empty());
}
