//! Rights whose rules go through related rows, and filters that depend on rows that the caller may
//! not read.

use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_model::{Caller, ErrorKind, Filter, Ref, parse_filter};
use marmota_store::change::ChangeRetention;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Store, StoreBuilder};

use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{AddModels, Stand, Subject};

register!($ related_rights_promises related_rights: ; by transactions:
    a_rule_through_relations_decides_every_verb,
    a_rule_on_the_new_row_reads_its_relations,
    references_need_rows_that_a_rule_selects,
    a_lost_membership_hides_rows_at_once,
    filters_do_not_see_hidden_rows,
    a_live_query_follows_memberships,
);

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Project {
    id: i64,
    name: String,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Member {
    id: i64,
    project: Ref<Project>,
    user: i64,
    role: String,
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(audit)]
struct Task {
    id: i64,
    project: Ref<Project>,
    #[model(unique)]
    title: String,
    votes: i64,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Project>().model::<Member>().model::<Task>()
}

fn with_feed(builder: StoreBuilder) -> StoreBuilder {
    models(builder).changes(ChangeRetention::default())
}

const ANN: i64 = 7;

const ADMINS: &str = "any(project.member, user = @user.id and role = 'admin')";

/// A store with three projects: Ann is admin of the first and reader of the second.
struct Scene<'s> {
    stand: Stand<'s>,
    projects: Vec<i64>,
    /// A task of each project.
    tasks: Vec<i64>,
}

impl<'s> Scene<'s> {
    fn open(subject: &'s Subject, models: AddModels) -> Option<Self> {
        if !subject.capability().guarded_writes {
            return None;
        }
        let mut stand = Stand::open(subject, models);
        let names = ["one", "two", "three"];
        let projects = names.map(|name| Project { id: 0, name: name.to_owned() });
        let projects = stand.insert_many(&projects).run().unwrap();
        for (at, role) in [(0, "admin"), (1, "reader")] {
            let project = Ref::new(projects[at]);
            let member = Member { id: 0, project, user: ANN, role: role.to_owned() };
            stand.insert(&member).run().unwrap();
        }
        let tasks = (0..3).map(|at| task(projects[at], names[at]));
        let tasks = stand.insert_many(&tasks.collect::<Vec<_>>()).run().unwrap();
        stand.settle();
        Some(Self { stand, projects, tasks })
    }

    fn ann(&self, grants: &[Grant]) -> Store {
        let caller = Caller { id: ANN.to_string(), name: "ann".to_owned(), groups: Vec::new() };
        let rights = Rights::new(self.stand.registry(), Some(caller), grants).unwrap();
        self.stand.with_rights(rights)
    }

    /// Ann with all rights on tasks of projects of which she is an admin.
    fn admin(&self) -> Store {
        self.ann(&[
            Grant::new("task", &Right::ALL).rule(ADMINS),
            Grant::new("project", &[Right::Read]),
        ])
    }
}

fn task(project: i64, title: &str) -> Task {
    Task { id: 0, project: Ref::new(project), title: title.to_owned(), votes: 0 }
}

/// A rule through relations decides about reads and writes of existing rows.
pub fn a_rule_through_relations_decides_every_verb(subject: &Subject) {
    let Some(scene) = Scene::open(subject, models) else { return };
    let ann = scene.admin();
    let [hers, other, _] = scene.tasks[..] else { panic!() };
    for _ in 0..2 {
        assert_eq!(ann.get::<Task>(hers).run().unwrap().title, "one");
        refused(ann.get::<Task>(other).run(), ErrorKind::NotFound);
        assert_eq!(ann.get::<Task>(other).optional().run().unwrap(), None);
        assert_eq!(ann.list::<Task>().column(Task::ID).run().unwrap(), [hers]);
        assert_eq!(ann.list::<Task>().filter(Task::ID.eq(other)).run().unwrap(), []);
        assert_eq!(ann.count::<Task>().run().unwrap(), 1);
        assert_eq!(ann.history::<Task>(hers).run().unwrap().len(), 1);
        assert_eq!(ann.history::<Task>(other).run().unwrap(), []);
    }
    ann.patch::<Task>(hers).set(Task::TITLE, "first").run().unwrap();
    ann.increment(Task::VOTES, hers, 1).run().unwrap();
    refused(ann.patch::<Task>(other).set(Task::TITLE, "x").run(), ErrorKind::NotFound);
    refused(ann.increment(Task::VOTES, other, 1).run(), ErrorKind::NotFound);
    refused(ann.delete::<Task>(other).run(), ErrorKind::NotFound);
    let mut batch = ann.batch();
    batch.patch::<Task>(other).set(Task::VOTES, 9);
    batch.patch::<Task>(hers).set(Task::VOTES, 9);
    let results = batch.continue_on_error().run().unwrap();
    assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(results[1].is_ok());
    let transaction = ann.begin_run().unwrap();
    refused(transaction.get::<Task>(other).run(), ErrorKind::NotFound);
    transaction.rollback().run().unwrap();
    drop(transaction);
    assert_eq!(ann.delete_where::<Task>(Filter::all([])).run().unwrap(), 1);
    assert_eq!(scene.stand.count::<Task>().run().unwrap(), 2);
    // Without a caller, `@user` in a nested condition gives nothing.
    let rule = Grant::new("task", &Right::ALL).rule("none(project.member, user = @user.id)");
    let nobody = Rights::new(scene.stand.registry(), None, &[rule]).unwrap();
    let nobody = scene.stand.with_rights(nobody);
    refused(nobody.list::<Task>().run(), ErrorKind::Unauthenticated);
}

/// New rows, and rows after a change, have to match a rule through relations.
pub fn a_rule_on_the_new_row_reads_its_relations(subject: &Subject) {
    let Some(scene) = Scene::open(subject, models) else { return };
    let ann = scene.admin();
    let [one, two, _] = scene.projects[..] else { panic!() };
    let new = ann.insert(&task(one, "new")).run().unwrap();
    refused(ann.insert(&task(two, "x")).run(), ErrorKind::Denied);
    refused(ann.insert_many(&[task(one, "y"), task(two, "z")]).run(), ErrorKind::Denied);
    refused(ann.patch::<Task>(new).set(Task::PROJECT, Ref::new(two)).run(), ErrorKind::Denied);
    refused(ann.insert(&task(one, "two")).or_update().run(), ErrorKind::Conflict);
    let mut batch = ann.batch();
    batch.insert(&task(one, "a")).insert(&task(two, "b"));
    refused(batch.all_or_nothing().run(), ErrorKind::Denied);
    ann.insert_many(&[task(one, "c"), task(one, "d")]).run().unwrap();
    let titles = scene.stand.list::<Task>().order(Task::ID.ascending()).column(Task::TITLE);
    assert_eq!(titles.run().unwrap(), ["one", "two", "three", "new", "c", "d"]);
    assert_eq!(*scene.stand.get::<Task>(new).run().unwrap().project.key(), one);
}

/// A row may refer only to rows that the caller may read or refer to by a rule through relations.
pub fn references_need_rows_that_a_rule_selects(subject: &Subject) {
    let Some(scene) = Scene::open(subject, models) else { return };
    let rule = Grant::new("project", &[Right::Read]).rule("any(member, user = @user.id)");
    let ann = scene.ann(&[Grant::new("task", &Right::ALL), rule]);
    ann.insert(&task(scene.projects[1], "new")).run().unwrap();
    let hidden = ann.insert(&task(scene.projects[2], "x")).run();
    blamed(hidden, ErrorKind::Invalid, "project", "reference");
    let many = [task(scene.projects[0], "y"), task(scene.projects[2], "z")];
    assert!(ann.insert_many(&many).run().is_err());
    assert_eq!(scene.stand.count::<Task>().run().unwrap(), 4);
}

/// A row is hidden as soon as its caller is no member any more, also from caches.
pub fn a_lost_membership_hides_rows_at_once(subject: &Subject) {
    let Some(scene) = Scene::open(subject, models) else { return };
    let (ann, hers) = (scene.admin(), scene.tasks[0]);
    assert!(ann.get::<Task>(hers).run().is_ok());
    scene.stand.delete_where::<Member>(Member::USER.eq(ANN)).run().unwrap();
    refused(ann.get::<Task>(hers).run(), ErrorKind::NotFound);
    assert_eq!(ann.count::<Task>().run().unwrap(), 0);
    refused(ann.delete::<Task>(hers).run(), ErrorKind::NotFound);
}

/// A condition on related rows sees only the rows that its caller may read.
pub fn filters_do_not_see_hidden_rows(subject: &Subject) {
    let Some(scene) = Scene::open(subject, models) else { return };
    let rule = Grant::new("project", &[Right::Read]).rule("any(member, user = @user.id)");
    let ann = scene.ann(&[Grant::new("task", &Right::ALL), rule]);
    let named = |name: &str| Task::PROJECT.to(Project::NAME.eq(name));
    assert_eq!(ann.count::<Task>().filter(named("two")).run().unwrap(), 1);
    assert_eq!(ann.count::<Task>().filter(named("three")).run().unwrap(), 0);
    assert_eq!(ann.list::<Task>().filter(named("three")).run().unwrap(), []);
    assert_eq!(ann.delete_where::<Task>(named("three")).run().unwrap(), 0);
    // A project that is hidden has no name, not another name.
    let known = ann.count::<Task>().filter(!named("two")).run().unwrap();
    let known_by_text = ann.count::<Task>().filter(!named("three")).run().unwrap();
    assert_eq!((known, known_by_text), (2, 3));
    // No member can be read, so no condition on members is answered.
    let of_members = || Task::PROJECT.to(Member::PROJECT.any(Member::USER.eq(ANN)));
    refused(ann.list::<Task>().filter(of_members()).run(), ErrorKind::Denied);
    refused(ann.count::<Task>().filter(!of_members()).run(), ErrorKind::Denied);
    refused(ann.delete_where::<Task>(of_members()).run(), ErrorKind::Denied);
    let table = scene.stand.table("task").unwrap();
    let text = parse_filter(&table, "count(project.member) > 0").unwrap();
    refused(ann.list_records(&table).filter(text).run(), ErrorKind::Denied);
    assert_eq!(scene.stand.count::<Task>().run().unwrap(), 3);
}

/// A live query whose rows depend on memberships shows them as soon as they change.
pub fn a_live_query_follows_memberships(subject: &Subject) {
    if !subject.capability().change_feed {
        return;
    }
    let Some(scene) = Scene::open(subject, with_feed) else { return };
    let ann = scene.admin();
    let mut stream = ann.live::<Task>().subscribe_run().unwrap();
    let mut page: Vec<Task> = Vec::new();
    let mut follow = |titles: &[&str]| {
        let until = Instant::now() + Duration::from_secs(20);
        while page.iter().map(|task| &*task.title).ne(titles.iter().copied()) {
            assert!(Instant::now() < until, "{page:?} is not {titles:?}");
            let event = stream.next_run().unwrap().expect("the store is open");
            event.apply_to(&mut page);
        }
    };
    follow(&["one"]);
    let admins = Member::ROLE.eq("reader");
    let key = scene.stand.list::<Member>().filter(admins).column(Member::ID).run().unwrap()[0];
    scene.stand.patch::<Member>(key).set(Member::ROLE, "admin").run().unwrap();
    follow(&["one", "two"]);
    scene.stand.insert(&task(scene.projects[0], "four")).run().unwrap();
    follow(&["one", "two", "four"]);
    scene
        .stand
        .delete_where::<Member>(Member::PROJECT.eq(Ref::new(scene.projects[0])))
        .run()
        .unwrap();
    follow(&["two"]);
    let rename = scene.stand.patch::<Task>(scene.tasks[1]);
    rename.set(Task::TITLE, "second").run().unwrap();
    follow(&["second"]);
    scene.stand.delete::<Member>(key).run().unwrap();
    follow(&[]);
}
