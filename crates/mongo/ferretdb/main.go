// A server that speaks MongoDB's protocol, for tests: FerretDB over SQLite.
//
//	ferretdb [-cert FILE -key FILE] [-user NAME -password TEXT] ADDRESS FOLDER
//
// serves at ADDRESS (127.0.0.1:0 for any free port), keeps its files in
// FOLDER, prints its address in a line, and ends with its standard input, when
// it removes FOLDER: whoever started it cannot leave anything behind. With a
// certificate it speaks TLS alone; with a user it asks for a login (SCRAM).
//
// The module's name lets it see FerretDB's inner packages: its public one has
// no logins.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/FerretDB/FerretDB/build/version"
	"github.com/FerretDB/FerretDB/internal/clientconn"
	"github.com/FerretDB/FerretDB/internal/clientconn/connmetrics"
	"github.com/FerretDB/FerretDB/internal/handler/registry"
	"github.com/FerretDB/FerretDB/internal/util/password"
	"github.com/FerretDB/FerretDB/internal/util/state"
)

func main() {
	cert := flag.String("cert", "", "certificate, for TLS")
	key := flag.String("key", "", "its key")
	user := flag.String("user", "", "name of a user; then all must log in")
	secret := flag.String("password", "", "the user's password")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: ferretdb [-cert FILE -key FILE] [-user NAME -password TEXT] ADDRESS FOLDER")
	}
	address, folder := flag.Arg(0), flag.Arg(1)

	version.Get().Package = "embedded"
	provider, err := state.NewProvider("")
	if err != nil {
		log.Fatal(err)
	}
	err = provider.Update(func(s *state.State) {
		s.DisableTelemetry()
		s.TelemetryLocked = true
	})
	if err != nil {
		log.Fatal(err)
	}

	metrics := connmetrics.NewListenerMetrics()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	options := &registry.NewHandlerOpts{
		Logger:        logger,
		ConnMetrics:   metrics.ConnMetrics,
		StateProvider: provider,
		TCPHost:       address,
		SQLiteURL:     "file:" + folder + "/",
		TestOpts: registry.TestOpts{
			CappedCleanupPercentage: 10,
			BatchSize:               100,
			EnableNewAuth:           *user != "",
		},
	}
	if *user != "" {
		options.SetupDatabase = "admin"
		options.SetupUsername = *user
		options.SetupPassword = password.WrapPassword(*secret)
		options.SetupTimeout = 10 * time.Second
	}
	handler, closeBackend, err := registry.NewHandler("sqlite", options)
	if err != nil {
		log.Fatal(err)
	}
	defer closeBackend()

	listen := &clientconn.NewListenerOpts{
		Mode:    clientconn.NormalMode,
		Metrics: metrics,
		Handler: handler,
		Logger:  logger,
	}
	if *cert == "" {
		listen.TCP = address
	} else {
		listen.TLS, listen.TLSCertFile, listen.TLSKeyFile = address, *cert, *key
	}
	listener, err := clientconn.Listen(listen)
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	go func() {
		var there net.Addr
		if *cert == "" {
			there = listener.TCPAddr()
		} else {
			there = listener.TLSAddr()
		}
		fmt.Println(there)
	}()
	listener.Run(ctx)
	_ = os.RemoveAll(folder)
}
