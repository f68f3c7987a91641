//! Teams that track issues. People sign up by mail. Members of a team see its projects, issues, labels
//! and comments; its owner adds members. A webhook gets the changes of issues.
#![allow(missing_docs, reason = "the fields are self-explanatory")]
use marmota::admin::AdminPages;
use marmota::auth::{Auth, Settings, SignUpPolicy, User};
use marmota::files::{File, FileStorage};
use marmota::http::extract::{Json, Path};
use marmota::jobs::{Jobs, Worker, WorkerOptions};
use marmota::mail::{AccountMails, SmtpSender, Templates};
use marmota::prelude::*;
use marmota::rest::extract::{Caller, Transaction};
use marmota::store::action::block_on;
use marmota::store::change::ChangeRetention;
use marmota::store::rights::{Grant, Right};
use marmota::webhooks::{Webhook, WebhookOptions, WebhookWorker, Webhooks};

#[derive(Clone, Debug, Model)]
#[model(relation(members = "member"))]
pub struct Team {
    pub id: i64,
    #[model(trim, not_empty, max = 60, unique)]
    pub name: String,
    pub owner: Ref<User>,
}

#[derive(Clone, Debug, Model)]
#[model(unique(team, user))]
pub struct Member {
    pub id: i64,
    pub team: Ref<Team>,
    pub user: Ref<User>,
}

#[derive(Clone, Debug, Model)]
pub struct Project {
    pub id: i64,
    pub team: Ref<Team>,
    #[model(trim, not_empty, max = 60)]
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, ModelEnum)]
pub enum State {
    Open,
    Closed,
}

#[derive(Clone, Debug, Model)]
#[model(audit, relation(labels = "issue_label.label"))]
pub struct Issue {
    pub id: i64,
    pub project: Ref<Project>,
    #[model(trim, not_empty, max = 200)]
    pub title: String,
    #[model(default = "open")]
    pub state: State,
    #[model(on_delete = "set_null")]
    pub assignee: Option<Ref<Member>>,
    #[model(bytes_max = "10 MB")]
    pub attachment: Option<File>,
    #[model(version)]
    pub version: i64,
}

#[derive(Clone, Debug, Model)]
pub struct Label {
    pub id: i64,
    pub project: Ref<Project>,
    #[model(trim, not_empty, max = 40)]
    pub name: String,
}

#[derive(Clone, Debug, Model)]
#[model(unique(issue, label))]
pub struct IssueLabel {
    pub id: i64,
    #[model(on_delete = "cascade")]
    pub issue: Ref<Issue>,
    pub label: Ref<Label>,
}

#[derive(Clone, Debug, Model)]
pub struct Comment {
    pub id: i64,
    #[model(on_delete = "cascade")]
    pub issue: Ref<Issue>,
    pub author: Ref<User>,
    #[model(trim, not_empty, max = 10_000)]
    pub text: String,
    #[model(created_at)]
    pub created: Timestamp,
}

/// The rights of every user.
fn grants() -> Vec<Grant> {
    let of_members = |path: &str| format!("any({path}members, user = @user.id)");
    let all = |table: &str, path: &str| Grant::new(table, &Right::ALL).rule(of_members(path));
    let comments = of_members("issue.project.team.");
    vec![
        Grant::new("team", &[Right::Read]).rule(of_members("")),
        Grant::new("team", &Right::ALL).rule("owner = @user.id"),
        Grant::new("member", &[Right::Read]).rule(of_members("team.")),
        Grant::new("member", &Right::ALL).rule("team.owner = @user.id"),
        all("project", "team."),
        all("issue", "project.team."),
        all("label", "project.team."),
        all("issue_label", "issue.project.team."),
        Grant::new("comment", &[Right::Read]).rule(&*comments),
        Grant::new("comment", &Right::ALL).rule(format!("author = @user.id and {comments}")),
        Grant::new("marmota_user", &[Right::Refer]),
    ]
}

#[derive(serde::Deserialize, serde::Serialize)]
pub struct NewTeam {
    pub name: String,
    pub project: String,
}

/// POST /teams: a team with a first project, whose owner and first member is the caller.
async fn add_team(
    caller: Caller,
    Json(new): Json<NewTeam>,
    tx: Transaction,
) -> Result<Json<i64>, ApiError> {
    let user = || Ref::new(caller.user());
    let id = tx.insert(&Team { id: 0, name: new.name, owner: user() }).await?;
    tx.insert(&Member { id: 0, team: Ref::new(id), user: user() }).await?;
    tx.insert(&Project { id: 0, team: Ref::new(id), name: new.project }).await?;
    Ok(Json(id))
}

/// POST /issues/{id}/close with a text: closes an issue, with a comment.
async fn close(
    caller: Caller,
    Path(id): Path<i64>,
    Json(text): Json<String>,
    tx: Transaction,
) -> Result<Status, ApiError> {
    if tx.get::<Issue>(id).await?.state == State::Closed {
        return Err(Error::new(ErrorKind::Conflict, "the issue is closed already").into());
    }
    let (issue, author) = (Ref::new(id), Ref::new(caller.user()));
    tx.patch::<Issue>(id).set(Issue::STATE, State::Closed).await?;
    tx.insert(&Comment { id: 0, issue, author, text, created: Timestamp::default() }).await?;
    Ok(Status::NO_CONTENT)
}

/// The open tracker, with the threads that send mails and changes.
pub struct Tracker {
    pub auth: Auth,
    storage: FileStorage,
    mails: Worker,
    changes: WebhookWorker,
}

impl Tracker {
    /// Opens it. `url` is the address for links in mails, `hook` gets the changes of issues.
    pub fn open(
        [database, files, url]: [&str; 3],
        settings: Settings,
        sender: &SmtpSender,
        hook: Option<&str>,
    ) -> Result<Self> {
        let storage = FileStorage::open(files)?;
        let builder = marmota::open(database)?.changes(ChangeRetention::default());
        let builder = builder.model::<Team>().model::<Member>().model::<Project>().model::<Issue>();
        let builder = builder.model::<Label>().model::<IssueLabel>().model::<Comment>();
        let builder = marmota::webhooks::models(marmota::auth::models(builder));
        let store = storage.attach(builder).open()?;
        storage.start(&store)?;
        let settings = settings.everyone(grants()).sign_up(SignUpPolicy::Open).mailer(AccountMails);
        let settings = settings.title("Tracker").account_url(format!("{url}/account?next=/"));
        let auth = Auth::new(&store, settings)?;
        let texts = Templates::new("Tracker");
        let mails = AccountMails::register(Jobs::new(&store), &auth, sender, &texts)?;
        let webhooks = Webhooks::new(&store);
        if let Some(hook) = hook {
            let fields = ["project", "title", "state"];
            block_on(webhooks.ensure(&Webhook::new("hook", hook, "issue").fields(&fields)))?;
        }
        // The operator sets the URL, so it may be in the operator's network.
        let changes = webhooks.start(WebhookOptions::new().allow_private(true))?;
        Ok(Self { auth, storage, mails: mails.start(WorkerOptions::new())?, changes })
    }

    pub fn routes(&self) -> Router {
        let handlers = Router::with_state(self.auth.clone())
            .get("/", || async { Response::html(include_str!("page.html")) })
            .post("/teams", add_team)
            .post("/issues/{id}/close", close);
        let api = rest::Api::new(self.auth.store()).auth(&self.auth).files(&self.storage);
        let routes = api.router().nest("", handlers.router());
        AdminPages::new("/api").title("Tracker").add_account_to(routes)
    }

    /// Ends the threads, and closes the database.
    pub fn close(self) -> Result<()> {
        self.changes.stop()?;
        self.mails.stop()?;
        self.storage.stop();
        self.auth.store().close()
    }
}
