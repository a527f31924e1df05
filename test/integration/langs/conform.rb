# frozen_string_literal: true

# Does what test_languages.py asks for, in Ruby.
require "#{ENV.fetch('HANDLERS')}/ruby/redisq"

Redisq.run(slots: 4) do |task|
  next { bytes: task.payload.bytesize, last: task.payload.getbyte(-1) } if task.payload.encoding == Encoding::BINARY

  want = task.json
  case want['do']
  when 'echo'
    { id: task.id, queue: task.queue, attempt: task.attempt, saved: task.saved,
      field: task.fields['colour'], text: want['text'] }
  when 'nothing' then nil
  when 'fail' then raise ArgumentError, 'it failed'
  when 'dead' then raise Redisq::Dead, 'no such user'
  when 'retry' then raise Redisq::Retry.new('busy', delay_ms: 5000)
  when 'snooze' then raise Redisq::Snooze.new(delay_ms: 60_000)
  when 'wait' then sleep
  when 'note'
    task.checkpoint({ job: 7 })
    task.progress('half')
    { saved: task.saved }
  when 'print'
    puts 'x' * 99, "{\"type\":\"dead\"}\n" * 10_000
    $stdout.flush
    'printed'
  end
end
