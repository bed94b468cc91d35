package cli

const description = `Takes InfluxDB line protocol over HTTP, makes it durable, and turns it into Parquet files. When it
cannot keep up it says so: 503 with a Retry-After that is true.

Examples:
  lineweir                                   serve on 127.0.0.1:8086 with data in ./data
  lineweir --listen :8086 --data-dir /var/lib/lineweir
  lineweir --set page_cache.capacity=1GiB --set log.level=debug
  lineweir scan --db telegraf --measurement cpu --limit 10
  lineweir config check /etc/lineweir.yaml

Settings come from flags, then LINEWEIR_ environment variables (LINEWEIR_HTTP_LISTEN), then the file,
then the built-in defaults. "lineweir config default" prints every key with its documentation.
Exit status: 0 done, 1 failed, 2 the arguments make no sense.`

// grammar is the whole command line.
type grammar struct {
	globalFlags `group:"Settings (for serve and token)"`

	Serve   serveCommand   `cmd:"" default:"1" help:"Serve until SIGTERM or SIGINT; lineweir without a command does this."`
	Scan    scanCommand    `cmd:"" help:"Print points of a running server, or of a data directory."`
	Load    loadCommands   `cmd:"" help:"Load a server with line protocol and measure it, above all when it is full."`
	Token   tokenCommands  `cmd:"" name:"token" help:"Make, list and revoke tokens, while the server runs or not."`
	WAL     walCommands    `cmd:"" name:"wal" help:"Look into a write-ahead log."`
	Check   checkCommand   `cmd:"" help:"Verify every file of a data directory."`
	Repair  repairCommand  `cmd:"" help:"Set aside what is damaged in a data directory, and say what is lost."`
	Backup  backupCommand  `cmd:"" help:"Copy a data directory, also under a running server."`
	Config  configCommands `cmd:"" name:"config" help:"Check or document a configuration."`
	Version versionCommand `cmd:"" help:"Print the version and what it was built with."`
}

// globalFlags choose the configuration. Pointers tell an empty value, which is refused, from none.
type globalFlags struct {
	Config  string   `placeholder:"FILE" help:"Configuration file. Without it ./config.yaml is read if there is one."`
	Listen  *string  `placeholder:"HOST:PORT" help:"Address to serve on; short for --set http.listen=HOST:PORT."`
	DataDir *string  `placeholder:"DIR" help:"Directory for all data; short for --set data_dir=DIR."`
	Set     []string `sep:"none" placeholder:"KEY=VALUE" help:"Set any key of the configuration; can be repeated."`
}

type walCommands struct {
	Dump walDumpCommand `cmd:"" help:"Print what a log holds as line protocol, with explicit timestamps."`
}

type configCommands struct {
	Check   configCheckCommand   `cmd:"" help:"Report everything that is wrong with a configuration file."`
	Default configDefaultCommand `cmd:"" help:"Print the default configuration with the documentation of every key."`
}
