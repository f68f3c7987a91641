//! The routes for administrators: jobs, backups and their parameters, without a server.

use std::time::{Duration, Instant};

use marmota::http::{TestRequest, TestResponse};
use marmota::jobs::{EnqueueJobs as _, JobOptions};
use marmota::operations::{Backups, Operations};
use marmota::prelude::*;
use serde_json::{Value as Json, json};

#[derive(serde::Deserialize, serde::Serialize)]
struct Report {
    month: u8,
}

impl marmota::jobs::Job for Report {
    const NAME: &'static str = "report";

    fn options() -> JobOptions {
        JobOptions::new().queue("reports")
    }

    async fn run(
        self,
        _: marmota::jobs::JobContext,
    ) -> std::result::Result<(), marmota::jobs::JobFailure> {
        Ok(())
    }
}

fn json_of(answer: &TestResponse) -> Json {
    serde_json::from_str(answer.text()).unwrap()
}

#[test]
fn a_job_is_listed_cancelled_and_repeated() {
    let store = marmota::jobs::models(marmota::open("memory:").unwrap()).open().unwrap();
    let id = store.enqueue(&Report { month: 7 }).run().unwrap().id;
    let router = Operations::new(&store).router();
    let get = |path: &str| router.call(TestRequest::get(format!("/api/-/jobs{path}"))).unwrap();
    let post = |path: &str| router.call(TestRequest::post(format!("/api/-/jobs{path}"))).unwrap();

    let listed = json_of(&get("?queue=reports&state=pending&limit=1"));
    assert_eq!(listed["jobs"][0]["input"], json!({ "month": 7 }));
    assert_eq!(json_of(&get("/overview"))["queues"][0]["pending"], 1);
    assert_eq!(json_of(&get(&format!("/{id}")))["function"], "report");

    assert_eq!(json_of(&post(&format!("/{id}/cancel")))["state"], "cancelled");
    let again = post(&format!("/{id}/cancel"));
    assert_eq!(again.status(), Status::CONFLICT, "{}", again.text());
    assert_eq!(json_of(&post(&format!("/{id}/retry")))["state"], "pending");

    for (parameters, part) in [
        ("?state=lost", "must be one of scheduled, pending"),
        ("?limit=0", "between 1 and 1000"),
        ("?colour=red", "there are: queue, state, limit"),
    ] {
        let refused = get(parameters);
        assert_eq!(refused.status(), Status::BAD_REQUEST, "{parameters}");
        assert!(refused.text().contains(part), "{}", refused.text());
    }
}

#[test]
fn old_backups_are_removed_and_names_stay_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = marmota::open("memory:").unwrap().open().unwrap();
    let backups = Backups::new(&store, folder.path().join("backups")).keep(2);
    let router = Operations::new(&store).backups(&backups).router();
    let made: Vec<String> = (0..3)
        .map(|_| {
            let made = router.call(TestRequest::post("/api/-/backups")).unwrap();
            assert_eq!(made.status(), Status::OK, "{}", made.text());
            json_of(&made)["name"].as_str().unwrap().to_owned()
        })
        .collect();
    let listed = json_of(&router.call(TestRequest::get("/api/-/backups")).unwrap());
    let names: Vec<&str> = listed["backups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|backup| backup["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, [&made[2], &made[1]]);
    std::fs::write(folder.path().join("secret"), "x").unwrap();
    for name in ["..%2Fsecret", "%2Fetc%2Fpasswd", &made[0]] {
        let path = format!("/api/-/backups/{name}/file");
        assert_eq!(router.call(TestRequest::get(&path)).unwrap().status(), Status::NOT_FOUND);
    }
}

#[test]
fn administrators_set_a_schedule_that_a_restart_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let store = marmota::jobs::models(marmota::open("memory:").unwrap()).open().unwrap();
    let open = || Backups::new(&store, folder.path().join("backups")).keep(2);
    let put = |backups: &Backups, body: serde_json::Value| {
        let router = Operations::new(&store).backups(backups).router();
        router.call(TestRequest::put("/api/-/backups/schedule").json(&body)).unwrap()
    };
    let jobs = || {
        let router = Operations::new(&store).router();
        json_of(&router.call(TestRequest::get("/api/-/jobs/overview")).unwrap())["schedules"]
            .clone()
    };
    let backups = open();
    backups.start().unwrap();
    for (body, part) in [
        (json!({ "schedule": "30 3 * *", "keep": 1 }), "has 4 fields"),
        (json!({ "schedule": null, "keep": 0 }), "`keep` is 0"),
        (json!({ "keeps": 1 }), "unknown field `keeps`"),
    ] {
        let refused = put(&backups, body);
        assert_eq!(refused.status(), Status::BAD_REQUEST);
        assert!(refused.text().contains(part), "{}", refused.text());
    }
    let set = json_of(&put(&backups, json!({ "schedule": "30 3 * * *", "keep": 5 })));
    assert_eq!((&set["schedule"], &set["keep"]), (&json!("30 3 * * * UTC"), &json!(5)));
    assert_eq!(set["is_changeable"], true);
    backups.stop().unwrap();

    let backups = open();
    backups.start().unwrap();
    let router = Operations::new(&store).backups(&backups).router();
    let kept = json_of(&router.call(TestRequest::get("/api/-/backups")).unwrap());
    assert_eq!((&kept["schedule"], &kept["keep"]), (&json!("30 3 * * * UTC"), &json!(5)));
    assert!(jobs().to_string().contains("30 3 * * *"), "{}", jobs());
    let set = json_of(&put(&backups, json!({ "schedule": null, "keep": null })));
    assert_eq!(
        (&set["schedule"], &set["next_at"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(jobs(), json!([]));
    backups.stop().unwrap();

    let fixed = open().schedule("0 4 * * *".parse().unwrap());
    let refused = put(&fixed, json!({ "schedule": null, "keep": 3 }));
    assert_eq!(refused.status(), Status::CONFLICT, "{}", refused.text());
}

#[test]
fn a_schedule_applies_to_other_processes_over_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    // Each process has its own handle of the database.
    let url = format!("sqlite:{}", folder.path().join("a.db").display());
    let open = || marmota::jobs::models(marmota::open(&url).unwrap()).open().unwrap();
    let stores = [open(), open()];
    let [one, other] = [0, 1].map(|at| Backups::new(&stores[at], folder.path().join("backups")));
    one.start().unwrap();
    other.start().unwrap();
    let router =
        |at: usize, backups: &Backups| Operations::new(&stores[at]).backups(backups).router();
    let body = json!({ "schedule": "30 3 * * *", "keep": 5 });
    let set = TestRequest::put("/api/-/backups/schedule").json(&body);
    assert_eq!(router(0, &one).call(set).unwrap().status(), Status::OK);
    let router = router(1, &other);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let list = json_of(&router.call(TestRequest::get("/api/-/backups")).unwrap());
        if list["schedule"] == "30 3 * * * UTC" && list["keep"] == 5 {
            break;
        }
        assert!(Instant::now() < deadline, "{list}");
        std::thread::sleep(Duration::from_millis(50));
    }
    one.stop().unwrap();
    other.stop().unwrap();
}

#[test]
fn the_routes_are_in_the_document_of_the_api() {
    let store = marmota::jobs::models(marmota::open("memory:").unwrap()).open().unwrap();
    let operations = Operations::new(&store);
    let document = operations.open_api().document();
    for (_, pattern) in operations.router().patterns() {
        assert!(document["paths"][pattern].is_object(), "{pattern}");
    }
    let retry = &document["paths"]["/api/-/jobs/{job}/retry"]["post"];
    assert_eq!(retry["parameters"][0]["name"], "job");
}
