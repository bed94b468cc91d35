package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/influxdata/influxdb1-client/models"
	influx "github.com/influxdata/influxdb1-client/v2"
)

// v1 drives github.com/influxdata/influxdb1-client.
type v1 struct {
	client  influx.Client
	options options
}

func openV1(o options, trust *tls.Config) (library, error) {
	models.EnableUintSupport()
	config := influx.HTTPConfig{Addr: o.url, Username: o.user, Password: o.password, TLSConfig: trust}
	if o.gzip {
		config.WriteEncoding = influx.GzipEncoding
	}
	client, err := influx.NewHTTPClient(config)
	return &v1{client, o}, err
}

func (c *v1) close() { _ = c.client.Close() }

func (c *v1) ping(context.Context) outcome {
	_, version, err := c.client.Ping(time.Minute)
	result := failed("ping", err)
	result.Version = version
	return result
}

func (c *v1) write(_ context.Context, points []point) outcome {
	batch, err := influx.NewBatchPoints(influx.BatchPointsConfig{
		Database: c.options.database, Precision: c.options.precision, WriteConsistency: "all",
	})
	for _, p := range points {
		if err != nil {
			break
		}
		var written *influx.Point
		written, err = influx.NewPoint(p.Measurement, p.Tags, p.fields, p.at())
		batch.AddPoint(written)
	}
	if err != nil {
		return failed("write", err)
	}
	return failed("write", c.client.Write(batch))
}

func (c *v1) query(_ context.Context, text string) outcome {
	response, err := c.client.Query(influx.NewQuery(text, c.options.database, ""))
	if err == nil {
		err = response.Error()
	}
	result := failed("query", err)
	if err != nil {
		return result
	}
	for _, statement := range response.Results {
		for _, series := range statement.Series {
			for _, row := range series.Values {
				for _, cell := range row {
					result.Values = append(result.Values, fmt.Sprint(cell))
				}
			}
		}
	}
	return result
}
