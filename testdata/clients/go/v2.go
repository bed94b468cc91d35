package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	influx "github.com/influxdata/influxdb-client-go/v2"
	"github.com/influxdata/influxdb-client-go/v2/api/http"
)

// v2 drives github.com/influxdata/influxdb-client-go.
type v2 struct {
	client  influx.Client
	options options
}

func openV2(o options, trust *tls.Config) (library, error) {
	settings := influx.DefaultOptions().SetUseGZip(o.gzip).SetLogLevel(0).SetHTTPRequestTimeout(60).
		SetPrecision(map[string]time.Duration{"ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}[o.precision])
	// A beat is a batch of its own, and no batch may be pushed out by beats.
	settings.SetFlushInterval(100).SetMaxRetries(1000).SetMaxRetryTime(600_000).SetRetryBufferLimit(settings.BatchSize() * 10_000)
	if trust != nil {
		settings.SetTLSConfig(trust)
	}
	secret := o.token
	if o.user != "" {
		secret = o.user + ":" + o.password // as its README has it for servers of version 1.8
	}
	return &v2{influx.NewClientWithOptions(o.url, secret, settings), o}, nil
}

func (c *v2) close() { c.client.Close() }

func (c *v2) ping(ctx context.Context) outcome {
	health, err := c.client.Health(ctx)
	if err == nil && health.Version != nil {
		_, err = c.client.Ready(ctx)
		return outcome{Did: "ping", Version: *health.Version, Error: failed("", err).Error}
	}
	return failed("ping", err)
}

func (c *v2) write(ctx context.Context, points []point) outcome {
	if c.options.retry {
		return c.writeWithRetries(points)
	}
	api := c.client.WriteAPIBlocking("any", c.options.database)
	api.EnableBatching() // the points go out with the flush
	var err error
	for _, p := range points {
		if err == nil {
			err = api.WritePoint(ctx, influx.NewPoint(p.Measurement, p.Tags, p.fields, p.at()))
		}
	}
	if err == nil {
		err = api.Flush(ctx)
	}
	return presentedV2("write", err)
}

// writeWithRetries writes the points, and a beat every now and then until standard input ends: the library sends what
// was refused again when there is something new to write.
func (c *v2) writeWithRetries(points []point) outcome {
	api := c.client.WriteAPI("any", c.options.database)
	api.SetWriteFailedCallback(func(_ string, err http.Error, _ uint) bool {
		show(presentedV2("attempt", &err))
		return true
	})
	for _, p := range points {
		api.WritePoint(influx.NewPoint(p.Measurement, p.Tags, p.fields, p.at()))
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for beat := 1; ; beat++ {
		select {
		case <-ended:
			return outcome{Did: "write"}
		case <-time.After(250 * time.Millisecond):
			api.WriteRecord(fmt.Sprintf("beat number=%di %d", beat, beat))
		}
	}
}

func (c *v2) query(ctx context.Context, text string) outcome {
	_, err := c.client.QueryAPI("any").QueryRaw(ctx, text, influx.DefaultDialect())
	return presentedV2("query", err)
}

func presentedV2(did string, err error) outcome {
	result := failed(did, err)
	var refused *http.Error
	if errors.As(err, &refused) {
		result.Status, result.Code, result.RetryAfter = refused.StatusCode, refused.Code, int(refused.RetryAfter)
	}
	return result
}
