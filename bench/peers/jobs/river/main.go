// Measures River: no-op jobs that are enqueued, 1,000 at once, and finished, in jobs a second.
// Arguments: the URL of an empty PostgreSQL database, and the number of jobs.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type nothing struct {
	Number int `json:"number"`
}

func (nothing) Kind() string { return "nothing" }

type worker struct {
	river.WorkerDefaults[nothing]
}

func (worker) Work(context.Context, *river.Job[nothing]) error { return nil }

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx := context.Background()
	jobs, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, os.Args[1])
	if err != nil {
		return err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{})
	// The settings of `river bench`.
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		Workers:           workers,
	})
	if err != nil {
		return err
	}
	ended, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 500_000,
		Kinds:    []river.EventKind{river.EventKindJobCompleted},
	})
	defer unsubscribe()
	var completed atomic.Int64
	done := make(chan struct{})
	go func() {
		for range ended {
			if completed.Add(1) == int64(jobs) {
				close(done)
			}
		}
	}()
	if err := client.Start(ctx); err != nil {
		return err
	}
	began := time.Now()
	for first := 0; first < jobs; first += 1000 {
		batch := make([]river.InsertManyParams, 0, 1000)
		for number := first; number < min(first+1000, jobs); number++ {
			batch = append(batch, river.InsertManyParams{Args: nothing{number}})
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
	}
	<-done
	fmt.Printf("%.0f\n", float64(jobs)/time.Since(began).Seconds())
	return client.Stop(ctx)
}
