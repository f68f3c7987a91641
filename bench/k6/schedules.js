// The load of the public transit challenge: 50 virtual users for half a minute,
// each requesting every route of the feed in turn. No request may fail.
// 
//   transit --data DIR --port 4000 &
//   k6 run -e TRIPS=DIR/trips.txt bench/k6/schedules.js
import http from "k6/http";
import { check } from "k6";
import { SharedArray } from "k6/data";

const origin = __ENV.ORIGIN || "http://127.0.0.1:4000";

const routes = new SharedArray("routes", () => {
  const [head, ...lines] = open(__ENV.TRIPS).split("\n");
  const column = head.trim().split(",").indexOf("route_id");
  return [...new Set(lines.filter((line) => line).map((line) => line.split(",")[column]))];
});

export const options = {
  vus: 50,
  duration: "30s",
  thresholds: { http_req_failed: ["rate==0"], checks: ["rate==1"] },
};

export default function () {
  for (let turn = 0; turn < routes.length; turn += 1) {
    const route = routes[(turn + __VU * 37) % routes.length];
    const answer = http.get(`${origin}/schedules/${encodeURIComponent(route)}`, {
      tags: { name: "schedules" },
    });
    check(answer, {
      "200 with trips": (r) => r.status === 200 && r.body.startsWith('[{"trip_id"') && r.body.endsWith("]"),
    });
  }
}
