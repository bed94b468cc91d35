package main

import (
	"context"
	"errors"
	"time"

	"github.com/InfluxCommunity/influxdb3-go/v2/influxdb3"
)

// v3 drives github.com/InfluxCommunity/influxdb3-go: by the API of version 2, which is its default, or by its own.
type v3 struct {
	client  *influxdb3.Client
	options options
}

func openV3(o options) (library, error) {
	settings := influxdb3.DefaultWriteOptions
	settings.UseV2Api = o.client == "v3"
	settings.NoSync = !settings.UseV2Api
	settings.Precision = map[string]influxdb3.Precision{"ns": influxdb3.Nanosecond, "us": influxdb3.Microsecond, "ms": influxdb3.Millisecond, "s": influxdb3.Second}[o.precision]
	settings.GzipThreshold = 0
	if o.gzip {
		settings.GzipThreshold = 1
	}
	client, err := influxdb3.New(influxdb3.ClientConfig{
		Host: o.url, Token: o.token, AuthScheme: "Bearer", Database: o.database, Organization: "any",
		WriteOptions: &settings, SSLRootsFilePath: o.ca, WriteTimeout: time.Minute,
	})
	return &v3{client, o}, err
}

func (c *v3) close() { _ = c.client.Close() }

func (c *v3) ping(context.Context) outcome {
	version, err := c.client.GetServerVersion()
	return outcome{Did: "ping", Version: version, Error: failed("", err).Error}
}

func (c *v3) write(ctx context.Context, points []point) outcome {
	var batch []*influxdb3.Point
	for _, p := range points {
		batch = append(batch, influxdb3.NewPoint(p.Measurement, p.Tags, p.fields, p.at()))
	}
	return presentedV3("write", c.client.WritePoints(ctx, batch))
}

func (c *v3) query(ctx context.Context, text string) outcome {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := c.client.Query(ctx, text, influxdb3.WithQueryType(influxdb3.InfluxQL))
	return presentedV3("query", err)
}

func presentedV3(did string, err error) outcome {
	result := failed(did, err)
	var refused *influxdb3.ServerError
	if errors.As(err, &refused) {
		result.Status, result.Code, result.RetryAfter = refused.StatusCode, refused.Code, refused.RetryAfter
	}
	var partial *influxdb3.PartialWriteError
	if errors.As(err, &partial) {
		for _, line := range partial.LineErrors {
			result.Lines = append(result.Lines, line.LineNumber)
		}
	}
	return result
}
