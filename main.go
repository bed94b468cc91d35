// Lineweir is an ingest gateway for InfluxDB line protocol: it makes writes durable, turns them into Parquet files, and
// bounds the tier of files that wait for compaction by holding back the seals that would exceed it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"lineweir/ingest"
	"lineweir/internal/auth"
	"lineweir/internal/cli"
	"lineweir/internal/config"
	"lineweir/internal/vfs"
	"lineweir/query"
	"lineweir/shard"
	"lineweir/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, cli.Commands{
		Serve: serve, WALDump: dumpLog, Check: check, Repair: repair, Scan: scanDirectory, Backup: backup,
	})
	stop()
	os.Exit(status)
}

// serve runs the server until ctx ends, then drains it, and returns within shutdown.timeout.
func serve(ctx context.Context, loaded *config.Loaded) error {
	return endWithin(ctx, loaded.Config.Shutdown.Timeout, func() error { return serveAndDrain(ctx, loaded) })
}

// endWithin runs f, and leaves it where it is when it hasn't returned within timeout after ctx has ended: nothing ends
// a call of a disk that doesn't answer, but for the end of the process. What was acknowledged is in the log by then.
func endWithin(ctx context.Context, timeout time.Duration, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return fmt.Errorf("the stop did not end within %s: the disk does not answer; the next start replays the log", timeout)
	}
}

// serveAndDrain is serve without a bound on calls of the disk.
func serveAndDrain(ctx context.Context, loaded *config.Loaded) error {
	logger, err := newLogger(loaded.Config.Log.Level)
	if err != nil {
		return err
	}
	limitMemory(logger)
	listener, err := net.Listen("tcp", loaded.Config.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	// The tokens are read before the first log line, which says whether there are any.
	if err := vfs.OS.MkdirAll(loaded.Config.DataDir, 0o755); err != nil {
		return errors.Join(fmt.Errorf("create the data directory: %w", err), listener.Close())
	}
	tokens := auth.NewVerifier(vfs.OS, loaded.Config.DataDir, logger)
	logStart(logger, loaded, listener.Addr(), tokens.On())
	engine, err := shard.Open(engineOptions(loaded, logger))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server, err := newServer(engine, tokens, loaded, logger)
	if err != nil {
		return errors.Join(err, listener.Close(), engine.Shutdown(ctx))
	}
	return run(ctx, engine, server, listener, loaded.Config.Shutdown.Timeout)
}

// run serves while the engine recovers and works. It returns when the drain is over, with an error if the engine
// failed.
func run(
	ctx context.Context, engine *shard.Engine, server *ingest.Server, listener net.Listener, timeout time.Duration,
) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	recovered := engine.Recover(ctx)
	if recovered == nil {
		select {
		case <-ctx.Done():
		case err := <-served:
			served <- err
		}
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout-timeout/closeShare)
	defer cancel()
	engine.Drain()
	stopped := stopServer(drain, server, timeout/requestsShare)
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		stopped = errors.Join(stopped, err)
	}
	if ctx.Err() != nil && errors.Is(recovered, context.Canceled) {
		recovered = nil // told to stop during the replay; the log is as it was
	}
	failed := engine.FailedReadOnly()
	return errors.Join(recovered, stopped, engine.Shutdown(drain), failed)
}

// Parts of shutdown.timeout, one in so many: that requests have for their end, and that is kept for closing files when
// the flush did not end. What lies between is for the flush.
const (
	requestsShare = 2
	closeShare    = 8
)

// stopServer lets requests end, and cuts the connections of those that take too long: writes are refused by now, and a
// client that takes nothing of its scan must not keep the memtables from their flush.
func stopServer(ctx context.Context, server *ingest.Server, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}

// scanWriteTimeout is how long a client may take no bytes of a scan, which holds the files that it reads.
const scanWriteTimeout = 30 * time.Second

// newServer puts the HTTP handlers over the engine.
func newServer(
	engine *shard.Engine, tokens *auth.Verifier, loaded *config.Loaded, logger *zap.Logger,
) (*ingest.Server, error) {
	scan, err := query.NewHandler(query.Options{Store: engine, Logger: logger, WriteTimeout: scanWriteTimeout})
	if err != nil {
		return nil, err
	}
	page, err := web.NewPage()
	if err != nil {
		return nil, err
	}
	limits := ingest.DefaultLimits()
	limits.BodyBytesMax = loaded.Config.HTTP.MaxBodyBytes
	limits.InFlightBytesMax = loaded.Config.HTTP.InFlightBytes
	limits.UnreadRefusalBytes = loaded.Config.Admission.UnreadRefusalBytes
	limits.BodyTimeout = loaded.Config.HTTP.BodyTimeout
	limits.ConnectionsMax = loaded.Config.HTTP.MaxConnections
	limits.Line = lineLimits(&loaded.Config)
	handler, err := ingest.NewHandler(ingest.Options{
		Engine: engine, Logger: logger, Version: cli.Version(), Scan: scan.Scan, Page: page.Serve,
		Tokens: tokens, Limits: limits,
	})
	if err != nil {
		return nil, err
	}
	options := ingest.DefaultServerOptions()
	options.Handler, options.Logger = handler, logger
	options.ReadHeaderTimeout = loaded.Config.HTTP.ReadHeaderTimeout
	options.IdleTimeout = loaded.Config.HTTP.IdleTimeout
	options.CertificateFile, options.KeyFile = loaded.Config.HTTP.TLSCert, loaded.Config.HTTP.TLSKey
	return ingest.NewServer(options)
}

// lineLimits translates the configuration.
func lineLimits(c *config.Config) ingest.LineLimits {
	return ingest.LineLimits{
		LinesMax:          c.Limits.LinesPerRequest,
		PointsMax:         c.Limits.PointsPerRequest,
		LineBytesMax:      c.Limits.LineBytes,
		TagsMax:           c.Limits.TagsPerLine,
		FieldsMax:         c.Limits.FieldsPerLine,
		SeriesKeyBytesMax: c.Limits.SeriesKeyBytes,
		StringBytesMax:    c.Limits.StringBytes,
	}
}

// engineOptions translates the configuration.
func engineOptions(loaded *config.Loaded, logger *zap.Logger) shard.Options {
	c := &loaded.Config
	return shard.Options{
		FS: vfs.OS, DataDir: loaded.Config.DataDir, Logger: logger, Shards: loaded.Config.Shards,
		Limits: shard.Limits{
			ColumnsPerMeasurement:   c.Limits.ColumnsPerMeasurement,
			MeasurementsPerBatch:    c.Limits.MeasurementsPerBatch,
			MeasurementsPerMemtable: c.Limits.MeasurementsPerMemtable,
		},
		Memtable: shard.MemtableOptions{
			MaxBytes: c.Memtable.MaxBytes, MaxRows: int64(c.Memtable.MaxRows), MaxAge: c.Memtable.MaxAge,
			FrozenMax: c.Memtable.FrozenMax,
		},
		Tier: shard.TierOptions{
			CapacityBytes: c.PageCache.CapacityBytes, SoftFraction: c.PageCache.SoftFraction,
			PageBytes: c.PageCache.PageBytes,
		},
		Admission: shard.AdmissionOptions{
			MaxWait: c.Admission.MaxWait, RetryAfterMin: c.Admission.RetryAfterMin,
			RetryAfterMax: c.Admission.RetryAfterMax, WaitingBytesMax: c.HTTP.InFlightBytes / 2,
		},
		WAL:                      shard.WALOptions{FileBytes: c.WAL.FileBytes, MaxBytes: c.WAL.MaxBytes},
		CompactionBytesPerSecond: c.Compaction.MaxBytesPerSecond,
		DiskReserveBytes:         c.Disk.ReserveBytes,
		ReadBytes:                c.HTTP.ReadBytes,
		Retention:                c.Retention.Default,
		Decode:                   ingest.DecodePayload,
	}
}

// newLogger logs JSON lines to standard error, or readable ones where that is a terminal.
func newLogger(level string) (*zap.Logger, error) {
	parsed, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	c := zap.NewProductionConfig()
	c.Level, c.Sampling, c.DisableStacktrace, c.DisableCaller = parsed, nil, true, true
	c.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	c.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		c.Encoding = "console"
		c.EncoderConfig.EncodeLevel = zapcore.CapitalColorLevelEncoder
		c.EncoderConfig.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	}
	return c.Build()
}

// logStart writes the first line, what of the configuration was ignored, and who can reach the server.
func logStart(logger *zap.Logger, loaded *config.Loaded, address net.Addr, authentication bool) {
	scheme := "http://"
	if loaded.Config.HTTP.TLSCert != "" {
		scheme = "https://"
	}
	logger.Info("lineweir starts", zap.String("version", cli.Version()), zap.String("config", loaded.Origin),
		zap.String("url", scheme+address.String()), zap.String("data_dir", loaded.Config.DataDir),
		zap.Bool("authentication", authentication))
	for _, warning := range loaded.Warnings {
		logger.Warn(warning)
	}
	tcp, ok := address.(*net.TCPAddr)
	if ok && tcp.IP.IsLoopback() {
		return
	}
	switch {
	case !authentication:
		logger.Warn("ANYBODY WHO REACHES THIS ADDRESS MAY READ, WRITE AND CHANGE EVERYTHING: there is no token. Make one " +
			"with `lineweir token create --name NAME --admin`, which needs no restart, or listen on 127.0.0.1")
	case loaded.Config.HTTP.TLSCert == "":
		logger.Warn("tokens and data can be read on their way to this address: set http.tls_cert and http.tls_key, or " +
			"let a proxy in front speak TLS")
	}
}

// limitMemory tells the garbage collector to stay within four fifths of the memory, unless GOMEMLIMIT says something
// else.
func limitMemory(logger *zap.Logger) {
	memory := config.ThisMachine().MemoryBytes
	if memory <= 0 || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return
	}
	debug.SetMemoryLimit(memory / 5 * 4)
	logger.Debug("memory limit", zap.Int64("bytes", memory/5*4))
}

// dumpLog writes the frames of a log directory as line protocol.
func dumpLog(ctx context.Context, dir string, w io.Writer) error {
	return shard.DumpLog(ctx, vfs.OS, dir,
		func(payload []byte) error { return ingest.DumpPayload(payload, w) },
		func(databases []string, measurement string) error { return ingest.DumpDrop(databases, measurement, w) })
}

// check verifies a data directory that no process uses.
func check(_ context.Context, dir string, w io.Writer) error {
	_, err := auth.NewFile(vfs.OS, dir).Tokens()
	return errors.Join(shard.Check(vfs.OS, dir, w), err)
}

// repair makes a data directory that no process uses one that a server starts with.
func repair(ctx context.Context, dir string, acceptLoss bool, w io.Writer) error {
	return shard.Repair(ctx, shard.RepairOptions{
		FS: vfs.OS, DataDir: dir, AcceptLoss: acceptLoss, Decode: ingest.DecodePayload,
	}, w)
}

// scanDirectory prints points of a data directory that no process uses.
func scanDirectory(ctx context.Context, dir string, parameters url.Values, w io.Writer) (err error) {
	engine, err := shard.OpenOffline(ctx, shard.OfflineOptions{FS: vfs.OS, DataDir: dir, Decode: ingest.DecodePayload})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.CloseOffline()) }()
	handler, err := query.NewHandler(query.Options{Store: engine, Logger: zap.NewNop(), WriteTimeout: scanWriteTimeout})
	if err != nil {
		return err
	}
	return handler.Print(ctx, parameters.Encode(), w)
}

// backup copies the data directory of a server that runs or not.
func backup(ctx context.Context, dir, dest string, w io.Writer) error {
	return shard.Backup(ctx, shard.BackupOptions{
		FS: vfs.OS, DataDir: dir, Dest: dest,
		Also: func(dest string) error { return auth.NewFile(vfs.OS, dir).CopyTo(ctx, dest) },
	}, w)
}
