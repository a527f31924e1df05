# frozen_string_literal: true

# redisq: task handlers in Ruby. One file, no gems, Ruby 2.7 or later; copy it.
#
#   require_relative 'redisq'
#
#   Redisq.run(slots: 4) do |task|
#     user = task.json['user'] or raise Redisq::Dead, 'no user'   # never to be tried again
#     { greeted: user }                                           # done; the value is the result
#   end
#
#   [queue mail]
#   handler = pipe ruby mail.rb        # one child serves 4 tasks at once, each in a thread
#   handler = exec ruby mail.rb        # the same file, one process per task
#
# How a task ends: the block returns = done. It raises Redisq::Dead = dead letter at once;
# Redisq::Snooze = not now, no attempt charged; Redisq::Retry = failed, and may say when to try
# again; any other error = failed attempt, with the error's text; the backtrace goes to the log.
#
# Cancelling (timeout, drain limit, lost lease): Redisq::Cancelled is raised in the block's thread.
# What is not over within kill_grace is killed. stdout and stderr are logs; fd 3 is the way to the
# worker: start ruby itself, not through sudo and the like.

require 'json'

module Redisq
  # The task can never work: a dead letter at once.
  class Dead < StandardError; end

  # A failed attempt that may say when to try again.
  class Retry < StandardError
    attr_reader :delay_ms

    def initialize(message = '', delay_ms: nil)
      super(message)
      @delay_ms = delay_ms
    end
  end

  # Not now: tried again later, no attempt charged.
  class Snooze < StandardError
    attr_reader :delay_ms

    def initialize(delay_ms: nil)
      super('snoozed')
      @delay_ms = delay_ms
    end
  end

  # Raised in a handler that is to stop. No StandardError: a bare rescue does not swallow it.
  class Cancelled < Exception; end # rubocop:disable Lint/InheritException

  # One task. payload and the values of fields are UTF-8, or ASCII-8BIT where they are not.
  #
  #   id            the same in all attempts; with queue the idempotency key
  #   attempt       from 1, of max_attempts
  #   deliveries    all hands it went through, this one included
  #   enqueued_at_ms, deadline_ms   Unix time; deadline_ms is nil without a timeout
  #   saved         the last checkpoint(), of an earlier attempt too; nil without one
  class Task
    attr_reader :id, :queue, :attempt, :max_attempts, :deliveries, :enqueued_at_ms, :deadline_ms,
                :payload, :fields, :saved

    def initialize(answers, line)
      @answers = answers
      @id, @queue, @attempt, @max_attempts, @deliveries, @enqueued_at_ms, @deadline_ms, @payload, @saved =
        line.values_at('id', 'queue', 'attempt', 'max_attempts', 'deliveries', 'enqueued_at_ms',
                       'deadline_ms', 'payload', 'checkpoint')
      @payload = line['payload_b64'].unpack1('m') if line['payload_b64']
      @fields = line['fields'] || {}
      (line['fields_b64'] || {}).each { |name, value| @fields[name] = value.unpack1('m') }
    end

    # The payload as JSON; Dead if it is none.
    def json
      JSON.parse(payload.to_s)
    rescue JSON::ParserError => e
      raise Dead, "the payload is not JSON: #{e.message}"
    end

    # Keeps any JSON value (up to 64 KiB) with the task: the next attempt has it as saved, also
    # after a crash.
    def checkpoint(value)
      @saved = value
      @answers.say(type: 'checkpoint', id: id, value: value)
    end

    # Any JSON value for `redisqctl show`: 40, "3 of 7", {...}.
    def progress(value)
      @answers.say(type: 'progress', id: id, value: value)
    end
  end

  # fd 3; a line is one write, whole also when threads speak at once.
  class Answers
    def initialize(fd, with_ids)
      @io = IO.for_fd(fd, 'wb', autoclose: false)
      @io.sync = true
      @io.close_on_exec = true
      @with_ids = with_ids
      @lock = Mutex.new
    rescue SystemCallError, ArgumentError
      abort "redisq: fd #{fd} is closed. Handlers are started by redisq-worker; sudo and the like " \
            'close it: start ruby itself'
    end

    def say(line)
      line = line.reject { |key, _| key == :id } unless @with_ids
      text = JSON.generate(line)
      @lock.synchronize { @io.write(text, "\n") }
    end
  end

  # A long-lived child: JSON lines on stdin, a thread per task.
  class Child
    def initialize(slots, &handler)
      @slots = slots
      @handler = handler
      @answers = Answers.new(3, true)
      @running = {} # id => thread
      @over = false
      @lock = Mutex.new
      @changed = ConditionVariable.new
    end

    def serve
      @answers.say(type: 'ready', slots: @slots)
      reader = Thread.new { read }
      reader.report_on_exception = false
      @lock.synchronize { @changed.wait(@lock) until @over && @running.empty? }
    end

    private

    def read
      $stdin.binmode
      while (text = $stdin.gets)
        line = JSON.parse(text.force_encoding(Encoding::UTF_8))
        case line['type']
        when 'task' then start(Task.new(@answers, line))
        when 'cancel' then @lock.synchronize { @running[line['id']] }&.raise(Cancelled, line['reason'].to_s)
        when 'drain' then drain
        end
      end
    ensure
      drain
    end

    def drain
      @lock.synchronize do
        @over = true
        @changed.signal
      end
    end

    # The mask is inherited: what is raised from outside waits until there is somebody to rescue it.
    def start(task)
      Thread.handle_interrupt(Cancelled => :never) do
        @lock.synchronize { @running[task.id] = Thread.new { serve_one(task) } }
      end
    end

    def serve_one(task)
      last = Redisq.outcome(task) do
        Thread.handle_interrupt(Cancelled => :immediate) { @handler.call(task) }
      end
      @answers.say(last)
      @lock.synchronize do
        @running.delete(task.id)
        @changed.signal
      end
    end
  end

  # The last word on a task.
  def self.outcome(task)
    line = { type: 'done', id: task.id }
    result = yield
    line[:result] = result unless result.nil?
    JSON.generate(line) # a result that is no JSON is the handler's error
    line
  rescue Dead => e
    { type: 'dead', id: task.id, error: e.message }
  rescue Snooze => e
    { type: 'snooze', id: task.id, delay_ms: e.delay_ms }.compact
  rescue Retry => e
    { type: 'retry', id: task.id, error: e.message, delay_ms: e.delay_ms }.compact
  rescue Cancelled => e
    { type: 'retry', id: task.id, error: "cancelled: #{e.message}" }
  rescue StandardError, ScriptError, NoMemoryError, SystemStackError => e
    warn e.full_message(highlight: false)
    { type: 'retry', id: task.id, error: "#{e.class}: #{e.message}" }
  end

  # Started once per task: the task is in the environment and on stdin.
  def self.run_one(&handler)
    number = ->(name) { ENV[name]&.to_i }
    saved = ENV['REDISQ_CHECKPOINT']
    begin
      saved &&= JSON.parse(saved)
    rescue JSON::ParserError
      saved # a string comes without its quotes
    end
    fields = JSON.parse(ENV['REDISQ_FIELDS'] || '{}')
    payload = $stdin.binmode.read.force_encoding(Encoding::UTF_8)
    payload.force_encoding(Encoding::BINARY) unless payload.valid_encoding?
    answers = Answers.new((ENV['REDISQ_ANSWER_FD'] || 3).to_i, false)
    task = Task.new(answers, {
      'id' => ENV.fetch('REDISQ_ID'), 'queue' => ENV['REDISQ_QUEUE'],
      'attempt' => number['REDISQ_ATTEMPT'], 'max_attempts' => number['REDISQ_MAX_ATTEMPTS'],
      'deliveries' => number['REDISQ_DELIVERIES'],
      'enqueued_at_ms' => number['REDISQ_ENQUEUED_AT_MS'],
      'deadline_ms' => number['REDISQ_DEADLINE_MS'], 'payload' => payload,
      'fields_b64' => fields.delete('fields_b64'), 'fields' => fields, 'checkpoint' => saved
    })
    main = Thread.current
    trap('TERM') { main.raise(Cancelled, 'SIGTERM') }
    answers.say(outcome(task) { handler.call(task) })
  end

  # Serves tasks until there are no more; returns then. slots: how many at once in this process.
  def self.run(slots: 1, &handler)
    ENV.key?('REDISQ_ID') ? run_one(&handler) : Child.new(slots, &handler).serve
  end
end
